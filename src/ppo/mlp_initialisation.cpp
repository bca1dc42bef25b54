#include <cmath>

#include "mlp_core.hpp"

namespace canter::detail {
namespace {

// makes row i of float64[count, size] orthogonal to the rows before it and of length 1
void orthonormalise(std::vector<double>& rows, std::size_t count, std::size_t size) {
  for (std::size_t i = 0; i < count; ++i) {
    double* row = &rows[i * size];
    // Gram-Schmidt twice is as orthogonal as a QR factorisation (Giraud et al. 2005)
    for (int pass = 0; pass < 2; ++pass) {
      for (std::size_t j = 0; j < i; ++j) {
        const double* other = &rows[j * size];
        double dot = 0;
        for (std::size_t k = 0; k < size; ++k) dot += row[k] * other[k];
        for (std::size_t k = 0; k < size; ++k) row[k] -= dot * other[k];
      }
      double square = 0;
      for (std::size_t k = 0; k < size; ++k) square += row[k] * row[k];
      const double inverse = 1.0 / std::sqrt(square);
      for (std::size_t k = 0; k < size; ++k) row[k] *= inverse;
    }
  }
}

}  // namespace

void initialise_orthogonal(std::span<float> weight, int rows, int columns, double gain, Rng rng) {
  const auto num_rows = static_cast<std::size_t>(rows),
             num_columns = static_cast<std::size_t>(columns);
  // the shorter side is orthonormal
  const bool wide = num_rows <= num_columns;
  const std::size_t count = wide ? num_rows : num_columns, size = wide ? num_columns : num_rows;
  std::vector<double> matrix(count * size);
  for (double& x : matrix) x = rng.normal();
  orthonormalise(matrix, count, size);
  for (std::size_t r = 0; r < num_rows; ++r)
    for (std::size_t c = 0; c < num_columns; ++c)
      weight[r * num_columns + c] =
          static_cast<float>(gain * (wide ? matrix[r * size + c] : matrix[c * size + r]));
}

}  // namespace canter::detail
