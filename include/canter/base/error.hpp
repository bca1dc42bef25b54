#pragma once
// Every exception that canter throws. Catch canter::Error for all of them; the derived types say
// who has to act: the caller (InvalidArgument), the author of a model or a task (ModelError,
// EnvError), the owner of the disk (CheckpointError) or of the network (CommunicationError).

#include <stdexcept>
#include <string>

namespace canter {

/// Base of all exceptions thrown by canter.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// An argument is wrong; the message gives the value, the expectation and the place.
/// Python: a subclass of both ValueError and canter.Error.
class InvalidArgument : public Error {
 public:
  using Error::Error;
};

/// A MuJoCo model cannot be loaded, compiled or used; carries MuJoCo's own text.
class ModelError : public Error {
 public:
  using Error::Error;
};

/// An environment failed: an exception in a task's hook, or a fatal MuJoCo error.
class EnvError : public Error {
 public:
  EnvError(int index, const std::string& message)
      : Error("environment " + std::to_string(index) + ": " + message), index_(index) {}

  /// Index of the first environment that failed, in [0, num_envs).
  int index() const noexcept { return index_; }

 private:
  int index_;
};

/// A checkpoint or a policy file cannot be written, is damaged, or does not fit its target.
class CheckpointError : public Error {
 public:
  using Error::Error;
};

/// A collective failed or timed out; names the rank and the operation.
class CommunicationError : public Error {
 public:
  using Error::Error;
};

}  // namespace canter
