#pragma once
// A chain of fully connected layers over the kernels: packed weights, and forward and backward
// passes over one block of rows in a workspace. Parameters stay in the policy's flat array.

#include <cstddef>
#include <memory>
#include <new>
#include <vector>

#include "kernels.hpp"

namespace canter::detail {

/// Zeroed floats that start on a cache line.
class FloatBuffer {
 public:
  explicit FloatBuffer(std::size_t size = 0);
  float* data() noexcept { return data_.get(); }
  const float* data() const noexcept { return data_.get(); }

 private:
  struct Free {
    void operator()(float* p) const noexcept { ::operator delete[](p, std::align_val_t{64}); }
  };
  std::unique_ptr<float[], Free> data_;
};

/// Outputs [first, first + rows) of a layer, and where their tensors are in the flat array.
struct LayerPart {
  int first = 0, rows = 0;
  std::size_t weight = 0;  ///< float[rows, inputs]
  std::size_t bias = 0;    ///< float[rows]
};

/// Layers one after the other; hidden ones are followed by the nonlinearity, the last is linear.
class MlpNetwork {
 public:
  MlpNetwork(int inputs, int nonlinearity);

  /// Appends a layer; it is hidden if another one follows.
  void add_layer(std::vector<LayerPart> parts);
  /// Call once after the last layer, with the floats of workspace that other networks use.
  /// Networks share the input at its start, and nothing else: padding must stay zero.
  /// @returns the floats of workspace for all of them.
  std::size_t finish(std::size_t workspace_size);

  int inputs() const noexcept { return inputs_; }
  int outputs() const noexcept { return layers_.back().outputs; }
  int input_stride() const noexcept { return kernels::stride_of(inputs_); }
  int output_stride() const noexcept { return kernels::stride_of(outputs()); }

  /// Copies the weights into the panels that the kernels read.
  void pack(const float* parameters) noexcept;

  /// Runs the input at the start of the workspace, float[rows, input_stride()], through all layers.
  /// @returns float[rows, output_stride()].
  const float* forward(float* workspace, int rows) const noexcept;

  /// Where backward expects d(loss)/d(output), float[rows, output_stride()]; zero from the start,
  /// and padding must stay so.
  float* output_gradient(float* workspace) const noexcept;
  /// Floats of a gradient slab.
  std::size_t slab_size() const noexcept { return slab_size_; }
  /// After forward and with output_gradient filled: writes (or adds) the gradient of the block into
  /// the slab; with `gradients`, layers that can add theirs to the flat array at once.
  void backward(float* workspace, int rows, bool accumulate, float* slab,
                float* gradients) const noexcept;
  /// Adds what the slabs hold to the flat gradients, in the order of the slabs. num_slabs is 1 when
  /// backward was given `gradients`.
  void add_gradient(const float* slabs, int num_slabs, std::size_t slab_stride,
                    float* gradients) const noexcept;

 private:
  struct Layer {
    int inputs, outputs;
    std::vector<LayerPart> parts;
    std::size_t forward_panels = 0, backward_panels = 0, bias = 0;  // in packed_
    std::size_t slab_weight = 0, slab_bias = 0;                     // in a slab
    std::size_t output = 0, output_gradient = 0;                    // in a workspace
    bool plain = false;  // the tensor itself has the layout of a slab
  };

  const kernels::Kernels& kernels_;
  int inputs_, nonlinearity_;
  std::vector<Layer> layers_;
  std::size_t slab_size_ = 0;
  FloatBuffer packed_;
};

}  // namespace canter::detail
