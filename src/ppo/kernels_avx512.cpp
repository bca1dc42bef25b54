// the same kernels for x86-64-v4: the same bits in half the instructions
#include "kernels_table.hpp"

namespace canter::kernels {

const Kernels kAvx512 = kTable;

}  // namespace canter::kernels
