"""Private training: gradients of each sample by torch.func (vmap of grad), clipped and noised; a Hessian-vector product now and then."""
import torch
from torch import nn
from torch.func import functional_call, grad, jvp, vmap

model = nn.Sequential(nn.Conv2d(1, 16, 8, 2, padding=3), nn.ReLU(), nn.MaxPool2d(2, 1), nn.Conv2d(16, 32, 4, 2), nn.ReLU(),
                      nn.MaxPool2d(2, 1), nn.Flatten(), nn.Linear(32 * 4 * 4, 32), nn.ReLU(), nn.Linear(32, 10)).cuda()
parameters = {name: value.detach() for name, value in model.named_parameters()}

def loss_of(weights, image, kind):
    return nn.functional.cross_entropy(functional_call(model, weights, (image[None],)), kind[None])

of_each = vmap(grad(loss_of), in_dims=(None, 0, 0))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for step in range(4):
    images, kinds = torch.randn(256, 1, 28, 28, device="cuda"), torch.randint(0, 10, (256,), device="cuda")
    weights = {name: value.detach() for name, value in model.named_parameters()}
    gradients = of_each(weights, images, kinds)
    norms = torch.stack([g.flatten(1).norm(dim=1) for g in gradients.values()]).norm(dim=0)
    factor = (1.0 / (norms + 1e-6)).clamp(max=1.0)
    for name, parameter in model.named_parameters():
        clipped = torch.einsum("i,i...->...", factor, gradients[name])
        parameter.grad = (clipped + torch.randn_like(parameter)) / len(images)
    optimizer.step()
    if step == 1:
        whole = lambda w: vmap(loss_of, in_dims=(None, 0, 0))(w, images, kinds).mean()
        direction = {name: torch.randn_like(value) for name, value in weights.items()}
        _, product = jvp(grad(whole), (weights,), (direction,))
        print("curvature", sum((product[n] * direction[n]).sum() for n in product).item())
    print(step, norms.mean().item())
