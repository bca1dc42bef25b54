#pragma once
// The machine's memory, asked before it is taken: Linux grants what it cannot give, and kills
// later.

#include <string>

namespace canter::detail {

/// Memory that this process can ever have [bytes]: the machine's, or less where its control group
/// has a limit.
double usable_memory();

/// @throws InvalidArgument when `bytes` exceed usable_memory(): "<what> needs about 80.0 GiB of
/// memory, there are 23.5 GiB".
void check_memory(const std::string& what, double bytes);

}  // namespace canter::detail
