#include "mlp_network.hpp"

#include <algorithm>
#include <utility>

namespace canter::detail {
namespace {

constexpr std::size_t kLineFloats = 16;

// reserves floats behind `end`, on a cache line
std::size_t reserve(std::size_t& end, std::size_t size) {
  const std::size_t at = end;
  end += (size + kLineFloats - 1) / kLineFloats * kLineFloats;
  return at;
}

std::size_t area(int rows, int columns) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
}

}  // namespace

FloatBuffer::FloatBuffer(std::size_t size)
    : data_(static_cast<float*>(
          ::operator new[](std::max<std::size_t>(size, 1) * sizeof(float), std::align_val_t{64}))) {
  std::fill_n(data_.get(), size, 0.0f);
}

MlpNetwork::MlpNetwork(int inputs, int nonlinearity)
    : kernels_(kernels::in_use()), inputs_(inputs), nonlinearity_(nonlinearity) {}

void MlpNetwork::add_layer(std::vector<LayerPart> parts) {
  const int inputs = layers_.empty() ? inputs_ : layers_.back().outputs;
  const int outputs = parts.back().first + parts.back().rows;
  layers_.push_back({.inputs = inputs, .outputs = outputs, .parts = std::move(parts)});
}

std::size_t MlpNetwork::finish(std::size_t workspace_size) {
  using kernels::kBlockRows, kernels::padded, kernels::stride_of;
  std::size_t packed = 0;
  if (workspace_size == 0) reserve(workspace_size, area(kBlockRows, input_stride()));
  for (Layer& layer : layers_) {
    layer.forward_panels = reserve(packed, area(layer.inputs, padded(layer.outputs)));
    layer.plain = layer.parts.size() == 1 && padded(layer.inputs) == layer.inputs;
    layer.backward_panels = reserve(packed, area(layer.outputs, padded(layer.inputs)));
    layer.bias = reserve(packed, area(1, padded(layer.outputs)));
    layer.slab_weight = reserve(slab_size_, area(layer.outputs, padded(layer.inputs)));
    layer.slab_bias = reserve(slab_size_, area(1, padded(layer.outputs)));
    layer.output = reserve(workspace_size, area(kBlockRows, stride_of(layer.outputs)));
    layer.output_gradient = reserve(workspace_size, area(kBlockRows, stride_of(layer.outputs)));
  }
  packed_ = FloatBuffer(packed);
  return workspace_size;
}

void MlpNetwork::pack(const float* parameters) noexcept {
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    for (const LayerPart& part : layer.parts) {
      kernels_.pack_transposed(parameters + part.weight, part.rows, layer.inputs, part.first,
                               kernels::padded(layer.outputs),
                               packed_.data() + layer.forward_panels);
      std::copy_n(parameters + part.bias, part.rows, packed_.data() + layer.bias + part.first);
      // the first layer passes no gradient to its input
      if (i > 0)
        kernels_.pack(parameters + part.weight, part.first, part.rows, layer.outputs, layer.inputs,
                      packed_.data() + layer.backward_panels);
    }
  }
}

const float* MlpNetwork::forward(float* workspace, int rows) const noexcept {
  const float* x = workspace;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    const bool last = i + 1 == layers_.size();
    const int x_stride = kernels::stride_of(layer.inputs),
              y_stride = kernels::stride_of(layer.outputs);
    const float* bias = packed_.data() + layer.bias;
    float* y = workspace + layer.output;
    if (last && i > 0 && layer.outputs == 1)
      kernels_.forward_one(x, x_stride, rows, kernels::padded(layer.inputs),
                           packed_.data() + layer.backward_panels, *bias, y, y_stride);
    else
      kernels_.forward(x, x_stride, rows, layer.inputs, packed_.data() + layer.forward_panels, bias,
                       kernels::padded(layer.outputs), last ? kernels::kNone : nonlinearity_, y,
                       y_stride);
    x = y;
  }
  return x;
}

float* MlpNetwork::output_gradient(float* workspace) const noexcept {
  return workspace + layers_.back().output_gradient;
}

void MlpNetwork::backward(float* workspace, int rows, bool accumulate, float* slab,
                          float* gradients) const noexcept {
  for (std::size_t i = layers_.size(); i-- > 0;) {
    const Layer& layer = layers_[i];
    const float* dz = workspace + layer.output_gradient;
    const int dz_stride = kernels::stride_of(layer.outputs);
    const int x_stride = kernels::stride_of(layer.inputs), width = kernels::padded(layer.inputs);
    const float* x = i > 0 ? workspace + layers_[i - 1].output : workspace;
    const bool at_once = gradients && layer.plain;
    kernels_.weight_gradient(
        dz, dz_stride, x, x_stride, rows, layer.outputs, layer.inputs, accumulate || at_once,
        at_once ? gradients + layer.parts[0].weight : slab + layer.slab_weight);
    kernels_.bias_gradient(dz, dz_stride, rows, kernels::padded(layer.outputs), accumulate,
                           slab + layer.slab_bias);
    if (i == 0) break;
    kernels_.backward(dz, dz_stride, rows, layer.outputs, packed_.data() + layer.backward_panels,
                      width, nonlinearity_, x, x_stride, workspace + layers_[i - 1].output_gradient,
                      x_stride);
  }
}

void MlpNetwork::add_gradient(const float* slabs, int num_slabs, std::size_t slab_stride,
                              float* gradients) const noexcept {
  const long stride = static_cast<long>(slab_stride);
  for (const Layer& layer : layers_) {
    const int width = kernels::padded(layer.inputs);
    for (const LayerPart& part : layer.parts) {
      kernels_.add_slabs(slabs + layer.slab_bias + part.first, num_slabs, stride, part.rows,
                         gradients + part.bias);
      if (num_slabs == 1 && layer.plain) continue;
      const float* weight = slabs + layer.slab_weight + area(part.first, width);
      // rows without padding follow each other in both places
      const int merged = width == layer.inputs ? part.rows : 1;
      for (int r = 0; r < part.rows; r += merged)
        kernels_.add_slabs(weight + area(r, width), num_slabs, stride, merged * layer.inputs,
                           gradients + part.weight + area(r, layer.inputs));
    }
  }
}

}  // namespace canter::detail
