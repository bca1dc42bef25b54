// the kernels for the instruction set of CANTER_MARCH
#include "kernels_table.hpp"

namespace canter::kernels {

const Kernels kBaseline = kTable;

}  // namespace canter::kernels
