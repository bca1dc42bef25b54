// Order of a commit: shard (temporary, fsync, rename, fsync of the folder), then the manifest in
// the same way, then fsync of the store's own folder. Pruning comes after it and takes manifests
// first, so that no manifest ever lists a file that is gone.

#include "canter/checkpoint/store.hpp"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "canter/base/error.hpp"
#include "checkpoint/checksum.hpp"
#include "checkpoint/durable_file.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/safetensors_image.hpp"
#include "checkpoint/step_directory.hpp"

namespace canter {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::string_view kBadPrefix = ".bad-";
constexpr std::uintmax_t kSpareSpace =
    std::uintmax_t{256} * 1024;  // manifest and the file system's own blocks

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// everything a writer needs to know about one save
struct Job {
  detail::SafetensorsImage image;
  detail::Manifest manifest;
  std::function<void()> after_commit;
  Clock::time_point start;
};

}  // namespace

struct CheckpointStore::Impl {
  Impl(fs::path path, CheckpointOptions o) : directory(std::move(path)), options(o) {}

  const fs::path directory;
  const CheckpointOptions options;
  Job job;  // the caller's while nothing is in flight, else the writer's

  std::thread writer;
  std::mutex mutex;
  std::condition_variable changed;
  bool in_flight = false, stopping = false;  // guarded by mutex, like error and durable_seconds
  std::exception_ptr error;
  double durable_seconds = 0;

  double stall_seconds = 0;
  std::size_t num_bytes = 0;

  void clean();
  void start_writer();
  void write_loop();
  std::exception_ptr finish();
  void commit();
  void write_step(const fs::path& folder, const std::string& shard);
  void prune(std::int64_t newest) const;
  void set_aside(const std::string& name) const;
};

// somebody else may be writing right now; then there is nothing to clean up
void CheckpointStore::Impl::clean() {
  try {
    const detail::DirectoryLock lock(directory);
    if (!lock.held()) return;
    for (const fs::path& entry : detail::entries_of(directory)) {
      const std::string name = entry.filename().string();
      std::error_code ignored;
      if (name.starts_with(detail::kTemporaryPrefix)) fs::remove_all(entry, ignored);
      if (detail::step_of(name)) detail::remove_leftovers(entry);
    }
  } catch (const CheckpointError&) {
    // a read-only folder: it can still be read
  }
}

// the host's signals stay with the host's threads
void CheckpointStore::Impl::start_writer() {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    writer = std::thread([this] { write_loop(); });
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void CheckpointStore::Impl::write_loop() {
#ifdef SCHED_BATCH
  // waking up must not push the training thread off its core
  const sched_param parameters{};
  pthread_setschedparam(pthread_self(), SCHED_BATCH, &parameters);
#endif
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [this] { return in_flight || stopping; });
    if (!in_flight) return;
    lock.unlock();
    std::exception_ptr failure;
    try {
      commit();
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    error = failure;
    durable_seconds = seconds_since(job.start);
    in_flight = false;
    changed.notify_all();
  }
}

// waits for the save in flight and takes its error
std::exception_ptr CheckpointStore::Impl::finish() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [this] { return !in_flight; });
  return std::exchange(error, nullptr);
}

void CheckpointStore::Impl::commit() {
  job.image.seal();
  const detail::DirectoryLock lock(directory);
  if (!lock.held())
    throw CheckpointError("another process is writing checkpoints to '" + directory.string() + "'");
  const std::uintmax_t needed = job.image.bytes().size() + kSpareSpace;
  if (const std::uintmax_t there = detail::free_space(directory); there < needed)
    throw CheckpointError("a checkpoint needs " + std::to_string(needed) + " bytes, '" +
                          directory.string() + "' has " + std::to_string(there) + " left");

  const fs::path folder = directory / detail::step_name(job.manifest.step);
  detail::make_directories(folder);
  // a step that is there already keeps its files until the new manifest replaces the old one
  std::string shard = "shard-00000-of-00001.safetensors";
  try {
    const auto before = detail::read_manifest(folder);
    if (before && detail::lists(*before, shard)) shard = "shard-00000-of-00001.again.safetensors";
  } catch (const CheckpointError&) {
    // damaged: nothing to keep
  }
  write_step(folder, shard);
  detail::remove_leftovers(folder);
  prune(job.manifest.step);
  // what it holds on to is free again before the next save
  if (const auto after_commit = std::exchange(job.after_commit, {})) after_commit();
}

void CheckpointStore::Impl::write_step(const fs::path& folder, const std::string& shard) {
  const std::span<const std::byte> bytes = job.image.bytes();
  try {
    detail::write_durably(folder / shard, bytes);
    job.manifest.files = {{shard, bytes.size(), detail::checksum(bytes)}};
    const std::string text = detail::to_text(job.manifest);
    detail::write_durably(folder / detail::kManifestName,
                          std::as_bytes(std::span(text.data(), text.size())));
    detail::sync_directory(directory);
  } catch (...) {
    detail::remove_leftovers(folder);
    throw;
  }
}

// a failure here costs disk space, not checkpoints, and the next save tries again
void CheckpointStore::Impl::prune(std::int64_t newest) const {
  std::vector<std::int64_t> old = detail::committed_steps(directory);
  std::erase(old, newest);
  const auto keep = static_cast<std::size_t>(options.keep_last - 1);
  if (old.size() <= keep) return;
  old.resize(old.size() - keep);
  for (const std::int64_t step : old) {
    const fs::path folder = directory / detail::step_name(step);
    try {
      if (!fs::remove(folder / detail::kManifestName)) continue;
      detail::sync_directory(folder);
      fs::remove_all(folder);
    } catch (const std::exception&) {
      continue;
    }
  }
}

void CheckpointStore::Impl::set_aside(const std::string& name) const {
  fs::path target = directory / (std::string(kBadPrefix) + name);
  for (int i = 1; fs::exists(target); ++i)
    target = directory / (std::string(kBadPrefix) + name + '.' + std::to_string(i));
  std::error_code ignored;  // a read-only folder: it is skipped all the same
  fs::rename(directory / name, target, ignored);
}

CheckpointStore::CheckpointStore(const fs::path& directory, CheckpointOptions options)
    // absolute: the program may change its working directory while a save is under way
    : impl_(std::make_unique<Impl>(fs::absolute(directory), options)) {
  if (options.keep_last < 1)
    throw InvalidArgument("keep_last must be >= 1, got " + std::to_string(options.keep_last));
  detail::make_directories(impl_->directory);
  impl_->clean();
}

CheckpointStore::~CheckpointStore() {
  if (!impl_->writer.joinable()) return;
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stopping = true;
  }
  impl_->changed.notify_all();
  impl_->writer.join();
}

void CheckpointStore::save(std::int64_t step, const StateDict& state, const CheckpointInfo& info,
                           std::function<void()> after_commit) {
  const Clock::time_point start = Clock::now();
  if (step < 0 || step >= 1'000'000'000'000'000'000)
    throw InvalidArgument("step must be in [0, 1e18), got " + std::to_string(step));
  const std::exception_ptr earlier = impl_->finish();
  Job& job = impl_->job;
  job.start = start;
  job.manifest = {.step = step, .info = info, .files = {}};
  job.after_commit = std::move(after_commit);
  job.image.fill(state, {{"step", std::to_string(step)}});
  impl_->num_bytes = state.num_bytes();
  if (impl_->options.background) {
    if (!impl_->writer.joinable()) impl_->start_writer();
    {
      const std::lock_guard lock(impl_->mutex);
      impl_->in_flight = true;
    }
    impl_->changed.notify_all();
  } else {
    impl_->commit();
    impl_->durable_seconds = seconds_since(start);
  }
  impl_->stall_seconds = seconds_since(start);
  if (earlier) std::rethrow_exception(earlier);
}

void CheckpointStore::wait() {
  if (const std::exception_ptr error = impl_->finish()) std::rethrow_exception(error);
}

void CheckpointStore::check() {
  std::exception_ptr error;
  {
    const std::lock_guard lock(impl_->mutex);
    if (!impl_->in_flight) error = std::exchange(impl_->error, nullptr);
  }
  if (error) std::rethrow_exception(error);
}

std::optional<Checkpoint> CheckpointStore::load_newest() {
  {
    std::unique_lock lock(impl_->mutex);
    impl_->changed.wait(lock, [this] { return !impl_->in_flight; });
  }
  std::vector<std::int64_t> candidates = detail::committed_steps(impl_->directory);
  std::vector<std::string> rejected;
  for (auto step = candidates.rbegin(); step != candidates.rend(); ++step) {
    const std::string name = detail::step_name(*step);
    try {
      Checkpoint checkpoint = detail::read_step(impl_->directory / name, *step);
      checkpoint.rejected = std::move(rejected);
      return checkpoint;
    } catch (const detail::NewerFormat& error) {
      throw CheckpointError("'" + (impl_->directory / name).string() + "' " + error.what());
    } catch (const detail::FileError& error) {
      // no permission or no descriptors left: not the fault of the file
      if (error.code() != EIO) throw;
      rejected.push_back(name + ": " + error.what());
    } catch (const CheckpointError& error) {
      rejected.push_back(name + ": " + error.what());
      impl_->set_aside(name);
    }
  }
  for (const fs::path& entry : detail::entries_of(impl_->directory))
    if (rejected.empty() && entry.filename().string().starts_with(kBadPrefix))
      rejected.push_back(entry.filename().string() + ": set aside earlier");
  if (rejected.empty()) return std::nullopt;
  std::string message = "no valid checkpoint is left in '" + impl_->directory.string() +
                        "' (remove it to start afresh):";
  for (const std::string& reason : rejected) message += "\n  " + reason;
  throw CheckpointError(message);
}

std::vector<std::int64_t> CheckpointStore::steps() const {
  return detail::committed_steps(impl_->directory);
}

double CheckpointStore::last_stall_seconds() const noexcept {
  return impl_->stall_seconds;
}

double CheckpointStore::last_durable_seconds() const noexcept {
  const std::lock_guard lock(impl_->mutex);
  return impl_->durable_seconds;
}

std::size_t CheckpointStore::last_num_bytes() const noexcept {
  return impl_->num_bytes;
}

}  // namespace canter
