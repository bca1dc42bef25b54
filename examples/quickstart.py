"""Trains a policy on CartPole in a few seconds, evaluates it, and acts with its file."""

import canter

# 16 environments stepped together by C++ threads; the same seed gives the same run, bit for bit
run = canter.train(
    "CartPole-v1",
    total_steps=60_000,
    preset="fast",
    seed=1,
    directory="runs/quickstart-python",
)

# 20 episodes with the mode of the action distribution and frozen normalisers
print(canter.evaluate(run.policy, "CartPole-v1", episodes=20))

# what goes onto the robot is one file
policy = canter.Policy.load("runs/quickstart-python/policy.safetensors")
pool = canter.make_pool("CartPole-v1", num_envs=4, seed=2)
observations = pool.reset()
total = 0.0
for _ in range(100):
    step = pool.step(policy.act(observations, deterministic=True))
    observations = step.observations
    total += float(step.rewards.sum())
print(f"return of 4 environments over 100 steps: {total:.0f} of 400")
