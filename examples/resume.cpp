// A run that is cut in two and continued is the run that was never cut: same bits.
#include <canter/canter.hpp>
#include <filesystem>
#include <iostream>
#include <memory>

namespace {

std::unique_ptr<canter::Trainer> make_trainer(const std::string& directory) {
  auto pool = canter::make_pool("Pendulum-v1", {.num_envs = 8, .seed = 5});
  auto policy = canter::make_mlp_policy(pool->spec(), {.hidden = {32, 32}}, /*seed=*/5);
  return std::make_unique<canter::Trainer>(
      pool, policy, canter::Communicator::single(),
      canter::TrainerOptions{.ppo = {.horizon = 64, .num_minibatches = 8},
                             .total_steps = 20 * 8 * 64,
                             .seed = 5,
                             .directory = directory});
}

}  // namespace

int main() {
  std::filesystem::remove_all("runs/cut");
  std::filesystem::remove_all("runs/whole");

  // ten iterations, and the process could end here: what is saved survives a power cut
  {
    auto trainer = make_trainer("runs/cut");
    for (int i = 0; i < 10; ++i) trainer->iterate();
    trainer->save();
  }
  // a later process: everything comes back, the simulations in mid-episode included
  auto resumed = make_trainer("runs/cut");
  if (!resumed->resume()) return 1;
  std::cout << "resumed at iteration " << resumed->iteration() << '\n';
  resumed->train();

  auto whole = make_trainer("runs/whole");
  whole->train();
  std::cout << "cut and resumed: " << resumed->digest() << "\nnever cut:       " << whole->digest()
            << '\n';
  return resumed->digest() == whole->digest() ? 0 : 1;
}
