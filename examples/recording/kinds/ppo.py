"""PPO for a made-up environment on the host: rollouts with sampled actions, advantages, epochs of minibatches, separate optimizers for actor and critic."""
import numpy
import torch
from torch import nn
from torch.distributions import Categorical

class Envs:
    def __init__(self, count, seed=0):
        self.random, self.state = numpy.random.default_rng(seed), numpy.zeros((count, 32), numpy.float32)

    def step(self, actions):
        self.state = 0.9 * self.state + 0.1 * self.random.standard_normal(self.state.shape).astype(numpy.float32)
        done = self.random.random(len(self.state)) < 0.02
        self.state[done] = 0
        return self.state, (actions % 2).astype(numpy.float32), done

device, count, length = torch.device("cuda"), 16, 64
envs = Envs(count)
actor = nn.Sequential(nn.Linear(32, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 6)).to(device)
critic = nn.Sequential(nn.Linear(32, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 1)).to(device)
optimizers = [torch.optim.Adam(actor.parameters(), lr=3e-4), torch.optim.Adam(critic.parameters(), lr=1e-3)]
state = torch.from_numpy(envs.state).to(device)
for update in range(2):
    states, actions, chances, rewards, values, dones = [], [], [], [], [], []
    for _ in range(length):
        with torch.no_grad():
            policy = Categorical(logits=actor(state))
            action = policy.sample()
            values.append(critic(state).flatten())
        states.append(state), actions.append(action), chances.append(policy.log_prob(action))
        next_state, reward, done = envs.step(action.cpu().numpy())
        rewards.append(torch.tensor(reward, device=device)), dones.append(torch.tensor(done, device=device).float())
        state = torch.from_numpy(next_state).to(device)
    advantages, last = [], 0
    with torch.no_grad():
        following = critic(state).flatten()
        for t in reversed(range(length)):
            delta = rewards[t] + 0.99 * following * (1 - dones[t]) - values[t]
            last = delta + 0.99 * 0.95 * (1 - dones[t]) * last
            advantages.insert(0, last)
            following = values[t]
    states, actions, chances, values, advantages = (torch.cat(one) for one in (states, actions, chances, values, advantages))
    returns = advantages + values
    for epoch in range(4):
        for rows in torch.randperm(len(states), device=device).split(256):
            policy = Categorical(logits=actor(states[rows]))
            ratio = (policy.log_prob(actions[rows]) - chances[rows]).exp()
            advantage = (advantages[rows] - advantages[rows].mean()) / (advantages[rows].std() + 1e-8)
            loss = -torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean() - 0.01 * policy.entropy().mean()
            value_loss = nn.functional.mse_loss(critic(states[rows]).flatten(), returns[rows])
            for optimizer in optimizers:
                optimizer.zero_grad()
            (loss + 0.5 * value_loss).backward()
            nn.utils.clip_grad_norm_([*actor.parameters(), *critic.parameters()], 0.5)
            for optimizer in optimizers:
                optimizer.step()
        divergence = (chances[rows] - policy.log_prob(actions[rows])).mean()
        if divergence.item() > 0.015:
            break
    print(update, loss.item(), value_loss.item())
