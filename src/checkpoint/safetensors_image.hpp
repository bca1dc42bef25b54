#pragma once
// A safetensors file put together in memory that is used again for the next one. Filling copies the
// arrays (what a training thread waits for); sealing computes the checksums (what a writer does).

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "canter/checkpoint/safetensors.hpp"

namespace canter::detail {

/// Where the data of a file start is a multiple of this; arrays start at multiples of kAlignment.
constexpr std::size_t kPageSize = 4096;
constexpr std::size_t kAlignment = 64;

/// One file in memory.
class SafetensorsImage {
 public:
  /// Lays the file out and copies the arrays.
  /// @throws InvalidArgument for a reserved array or metadata name.
  void fill(const StateDict& arrays, const Metadata& metadata);
  /// Computes the checksums and completes the header. Once per fill().
  /// @throws InvalidArgument for text that is not UTF-8.
  void seal();
  /// The file, once sealed.
  std::span<const std::byte> bytes() const noexcept { return std::span(memory_).first(size_); }
  /// Hands the memory over.
  std::vector<std::byte> take() &&;

 private:
  struct Entry {
    std::string name;
    Dtype dtype;
    std::vector<std::int64_t> shape;
    std::size_t begin, end;  // in the data section
  };
  void add_entry(std::string name, Dtype dtype, std::vector<std::int64_t> shape, std::size_t size);
  void reserve_header();
  std::string header() const;

  std::vector<Entry> entries_;
  Metadata metadata_;
  std::vector<std::byte> memory_;
  std::size_t data_start_ = 0, size_ = 0;
};

}  // namespace canter::detail
