#!/usr/bin/env python3
"""rates.py REPORT: how fast PyTorch's kernels, copies and host are on this machine, and what cuDNN asks for beside its
tensors. Writes REPORT/rates.json after every table: products of matrices in bfloat16, float32 and 8 bits, batched, unaligned
and grouped ones, attention, kernels that only move memory, copies between host and device, AdamW on the host, launches,
workspaces of convolutions and recurrent layers. Times are medians in ns, with the L2 cache emptied before each; needs PyTorch and one GPU, about a minute."""
import json
import pathlib
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

COPY_BYTES = [1 << power for power in range(12, 31, 3)]
TOKENS = (2048, 8192, 16384)
# n x k of the linear layers of GPT-2 124M, GPT-2 1.6B, Llama 3.2 1B, Llama 3 8B and Llama 3 70B.
LINEAR = ((768, 768), (2304, 768), (3072, 768), (768, 3072), (50304, 768), (1600, 1600), (4800, 1600), (6400, 1600), (1600, 6400),
          (2048, 2048), (8192, 2048), (2048, 8192), (4096, 4096), (1024, 4096), (14336, 4096), (4096, 14336), (128256, 4096),
          (8192, 8192), (28672, 8192), (8192, 28672))
ATTENTION = tuple((batch, heads, seq, head) for batch, heads, seq in ((16, 12, 1024), (4, 16, 2048), (1, 32, 8192), (1, 32, 32768))
                  for head in (64, 96, 128)) + ((4, 16, 2048, 80), (4, 16, 2048, 160), (4, 16, 2048, 256))
RECURRENT = tuple((kind, layers, bidirectional, batch, seq, inputs, hidden, dtype)
                  for kind in ("LSTM", "GRU", "RNN") for layers, bidirectional in ((1, False), (2, False), (2, True), (3, False))
                  for batch, seq, inputs, hidden in ((8, 32, 128, 256), (32, 100, 512, 512), (17, 33, 100, 200))
                  for dtype in ("float32", "float16"))
# In, out, kernel, stride, padding, height and width, of ResNet-50, VGG-16, a U-Net and patch embeddings.
CONVOLUTIONS = ((3, 64, 7, 2, 3, 224), (64, 64, 1, 1, 0, 56), (64, 64, 3, 1, 1, 56), (64, 256, 1, 1, 0, 56), (256, 128, 1, 1, 0, 56),
                (128, 128, 3, 2, 1, 56), (128, 512, 1, 1, 0, 28), (256, 512, 1, 2, 0, 56), (256, 256, 3, 1, 1, 14),
                (1024, 2048, 1, 2, 0, 14), (512, 512, 3, 1, 1, 7), (2048, 512, 1, 1, 0, 7), (3, 64, 3, 1, 1, 224),
                (64, 64, 3, 1, 1, 224), (512, 512, 3, 1, 1, 28), (320, 320, 3, 1, 1, 64), (640, 640, 3, 1, 1, 32),
                (3, 768, 16, 16, 0, 224), (3, 1024, 14, 14, 0, 224))


class Report:
    def __init__(self, folder):
        self.path = folder / "rates.json"
        self.tables = {"schema": "shardscope.gpu_rates/1", "device": torch.cuda.get_device_name(), "torch": torch.__version__,
                       "cudnn": torch.backends.cudnn.version(), "failed": []}

    def table(self, name, rows):
        """A row that fails costs that row alone."""
        begin, kept = time.monotonic(), []
        for row in rows:
            try:
                kept.append(row())
            except Exception as error:  # noqa: BLE001
                self.tables["failed"].append(f"{name}: {type(error).__name__}: {error}"[:300])
        self.tables[name] = kept
        self.tables[f"{name}_s"] = round(time.monotonic() - begin, 1)
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(self.tables, indent=0))
        part.rename(self.path)
        torch.cuda.empty_cache()


L2 = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")


def time_of(action, rounds=7):
    """Median ns on the device's own clock."""
    action()
    action()
    marks = []
    for _ in range(rounds):
        L2.zero_()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        action()
        end.record()
        marks.append((begin, end))
    torch.cuda.synchronize()
    return round(statistics.median(begin.elapsed_time(end) for begin, end in marks) * 1e6)


def random(*shape, dtype=torch.bfloat16):
    return torch.randn(shape, device="cuda", dtype=torch.bfloat16).to(dtype)


def product(m, n, k):
    a, b = random(m, k), random(n, k)
    row = {"m": m, "n": n, "k": k, "bfloat16_ns": time_of(lambda: F.linear(a, b))}
    a8, b8 = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn)
    one = torch.ones((), device="cuda")
    rows, columns = torch.ones((m, 1), device="cuda"), torch.ones((1, n), device="cuda")
    row["float8_tensorwise_ns"] = time_of(lambda: torch._scaled_mm(a8, b8.t(), one, one, out_dtype=torch.bfloat16, use_fast_accum=True))
    row["float8_rowwise_ns"] = time_of(lambda: torch._scaled_mm(a8, b8.t(), rows, columns, out_dtype=torch.bfloat16, use_fast_accum=True))
    return row


def batched_product(batch, m, n, k, dtype):
    """Scores (n = m) and their sums with values of attention that is not fused; heads of k numbers."""
    a, b = (torch.randn((batch, rows, k), device="cuda", dtype=torch.float32).to(getattr(torch, dtype)) for rows in (m, n))
    scores = torch.bmm(a, b.transpose(1, 2))
    return {"batch": batch, "m": m, "n": n, "k": k, "dtype": dtype, "scores_ns": time_of(lambda: torch.bmm(a, b.transpose(1, 2))),
            "context_ns": time_of(lambda: torch.bmm(scores, b))}


def float32_product(m, n, k):
    a, b = (torch.randn(rows, k, device="cuda") for rows in (m, n))
    return {"m": m, "n": n, "k": k, "float32_ns": time_of(lambda: F.linear(a, b))}


def unaligned_product(m, n, k, dtype):
    """A weight whose rows are no multiple of 16 bytes."""
    a, b = (torch.randn(rows, k, device="cuda").to(getattr(torch, dtype)) for rows in (m, n))
    return {"m": m, "n": n, "k": k, "dtype": dtype, "linear_ns": time_of(lambda: F.linear(a, b))}


def grouped_product(experts, tokens, n, k):
    """The tokens of all experts, in equal parts, each with its expert's weight."""
    a, b = random(tokens, k), random(experts, n, k)
    ends = torch.arange(1, experts + 1, device="cuda", dtype=torch.int32) * (tokens // experts)
    row = {"experts": experts, "tokens": tokens, "n": n, "k": k,
           "grouped_ns": time_of(lambda: torch._grouped_mm(a, b.transpose(1, 2), offs=ends))}
    parts = a.view(experts, tokens // experts, k)
    row["one_by_one_ns"] = time_of(lambda: [F.linear(part, weight) for part, weight in zip(parts, b)])
    return row


def attention(batch, heads, seq, head):
    q, k, v = (random(batch, heads, seq, head).requires_grad_() for _ in range(3))
    row = {"batch": batch, "heads": heads, "seq": seq, "head_size": head}
    for name, backend in (("flash", SDPBackend.FLASH_ATTENTION), ("cudnn", SDPBackend.CUDNN_ATTENTION),
                          ("efficient", SDPBackend.EFFICIENT_ATTENTION)):
        try:
            with sdpa_kernel(backend):
                row[f"{name}_forward_ns"] = time_of(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True))
                out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
                row[f"{name}_backward_ns"] = time_of(lambda: torch.autograd.grad(out, (q, k, v), out, retain_graph=True))
        except RuntimeError:
            pass  # not for this head size
    return row


def moving(tokens, hidden):
    x, weight, bias = random(tokens, hidden).requires_grad_(), random(hidden).requires_grad_(), random(hidden).requires_grad_()
    with torch.no_grad():
        y = x * 2
    norm = F.layer_norm(x, (hidden,), weight, bias)
    probability = torch.softmax(x.float(), -1)
    labels = torch.randint(0, hidden, (tokens,), device="cuda")
    with torch.no_grad():
        row = {"rows": tokens, "columns": hidden, "add_ns": time_of(lambda: x + y), "gelu_ns": time_of(lambda: F.gelu(x)),
               "to_float32_ns": time_of(lambda: x.float()), "layer_norm_ns": time_of(lambda: F.layer_norm(x, (hidden,), weight, bias)),
               "softmax_float32_ns": time_of(lambda: torch.softmax(probability, -1)),
               "cross_entropy_float32_ns": time_of(lambda: F.cross_entropy(probability, labels)),
               "transposed_copy_ns": time_of(lambda: x.t().contiguous())}
    row["layer_norm_backward_ns"] = time_of(lambda: torch.autograd.grad(norm, (x, weight, bias), y, retain_graph=True))
    return row


def copies(count):
    device = torch.empty(count, dtype=torch.uint8, device="cuda")
    row = {"bytes": count}
    for name, host in (("pinned", torch.empty(count, dtype=torch.uint8, pin_memory=True)), ("pageable", torch.ones(count, dtype=torch.uint8))):
        row[f"{name}_to_device_ns"] = time_of(lambda: device.copy_(host, non_blocking=True), rounds=5)
        row[f"{name}_to_host_ns"] = time_of(lambda: host.copy_(device, non_blocking=True), rounds=5)
    other, back = torch.empty_like(device), torch.empty(count, dtype=torch.uint8, pin_memory=True)
    pinned = torch.empty(count, dtype=torch.uint8, pin_memory=True)
    second = torch.cuda.Stream()

    def both():
        second.wait_stream(torch.cuda.current_stream())
        device.copy_(pinned, non_blocking=True)
        with torch.cuda.stream(second):
            back.copy_(other, non_blocking=True)
        torch.cuda.current_stream().wait_stream(second)

    row["both_ways_pinned_ns"] = time_of(both, rounds=5)
    return row


def host_adamw(elements, kind):
    parameter = torch.nn.Parameter(torch.randn(elements))
    parameter.grad = torch.randn(elements)
    optimizer = torch.optim.AdamW([parameter], lr=1e-4, **({kind: True} if kind else {}))
    optimizer.step()
    times = []
    for _ in range(3):
        begin = time.perf_counter_ns()
        optimizer.step()
        times.append(time.perf_counter_ns() - begin)
    return {"elements": elements, "implementation": kind or "loop", "threads": torch.get_num_threads(), "step_ns": round(statistics.median(times))}


def device_adamw(elements):
    parameters = [torch.nn.Parameter(torch.randn(elements // 100, device="cuda")) for _ in range(100)]
    row = {"elements": elements}
    for kind in ("fused", "foreach"):
        optimizer = torch.optim.AdamW(parameters, lr=1e-4, **{kind: True})
        for parameter in parameters:
            parameter.grad = torch.ones_like(parameter)
        row[f"{kind}_ns"] = time_of(optimizer.step)
    return row


def host_operations(name, action, count=2000):
    """What the host takes for one operation, where the device is never waited for."""
    for _ in range(200):
        action()
    torch.cuda.synchronize()
    begin = time.perf_counter_ns()
    for _ in range(count):
        action()
    host = (time.perf_counter_ns() - begin) / count
    torch.cuda.synchronize()
    return {"operation": name, "host_ns": round(host), "with_device_ns": round((time.perf_counter_ns() - begin) / count)}


def all_host_operations():
    x = random(16, 16).requires_grad_()
    y, linear = random(16, 16), torch.nn.Linear(16, 16, device="cuda", dtype=torch.bfloat16)
    with torch.no_grad():
        yield lambda: host_operations("add", lambda: torch.add(y, y))
        yield lambda: host_operations("view", lambda: y.view(256))
        yield lambda: host_operations("empty", lambda: torch.empty(16, device="cuda"))
        yield lambda: host_operations("linear without autograd", lambda: linear(y))
    yield lambda: host_operations("linear with autograd", lambda: linear(y))
    yield lambda: host_operations("linear, forward and backward", lambda: linear(x).sum().backward(), count=500)


def asked_for(action):
    """Sizes that the caching allocator was asked for, in order."""
    torch.cuda.synchronize()
    torch.cuda.memory._record_memory_history(max_entries=100000, context=None)
    action()
    events = torch.cuda.memory._snapshot()["device_traces"][0]
    torch.cuda.memory._record_memory_history(enabled=None)
    return [event["size"] for event in events if event["action"] == "alloc"]


def recurrent(kind, layers, bidirectional, batch, seq, inputs, hidden, dtype):
    module = getattr(torch.nn, kind)(inputs, hidden, layers, bidirectional=bidirectional).cuda().to(getattr(torch, dtype)).train()
    x = torch.randn(seq, batch, inputs, device="cuda", dtype=getattr(torch, dtype), requires_grad=True)
    module(x)[0].sum().backward()
    kept = []
    forward = asked_for(lambda: kept.append(module(x)[0]))
    total = kept[0].sum()
    backward = asked_for(total.backward)
    return {"kind": kind, "layers": layers, "bidirectional": bidirectional, "batch": batch, "seq": seq, "inputs": inputs,
            "hidden": hidden, "dtype": dtype, "forward_bytes": forward, "backward_bytes": backward}


def convolution(shape, batch, dtype, channels_last):
    inputs, outputs, kernel, stride, padding, size = shape
    layout = torch.channels_last if channels_last else torch.contiguous_format
    module = torch.nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False).cuda().to(getattr(torch, dtype)).to(memory_format=layout)
    x = torch.randn(batch, inputs, size, size, device="cuda", dtype=getattr(torch, dtype)).contiguous(memory_format=layout).requires_grad_()
    gradient = torch.ones_like(module(x))
    module(x).backward(gradient)
    kept = []
    forward = asked_for(lambda: kept.append(module(x)))
    backward = asked_for(lambda: kept[0].backward(gradient))
    row = {"shape": shape, "batch": batch, "dtype": dtype, "channels_last": channels_last, "forward_bytes": forward, "backward_bytes": backward}
    row["forward_ns"] = time_of(lambda: module(x), rounds=3)
    out = module(x)
    row["backward_ns"] = time_of(lambda: torch.autograd.grad(out, (x, module.weight), gradient, retain_graph=True), rounds=3)
    return row


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    report = Report(folder)
    report.table("copies", [lambda count=count: copies(count) for count in COPY_BYTES])
    report.table("products", [lambda m=m, n=n, k=k: product(m, n, k) for m in TOKENS for n, k in LINEAR])
    report.table("batched_products", [lambda batch=batch, m=m, k=k, dtype=dtype: batched_product(batch, m, m, k, dtype)
                                      for dtype in ("bfloat16", "float16") for batch, m in ((64, 2048), (128, 1024))
                                      for k in (64, 80, 96, 104, 108, 112, 116, 124, 128, 160, 216)])
    report.table("unaligned_products", [lambda n=n, k=k, dtype=dtype: unaligned_product(4096, n, k, dtype) for dtype in ("bfloat16", "float16")
                                        for n, k in ((4096, 4096), (4096, 4100), (4096, 4098), (4096, 4097), (4100, 4096), (4098, 4096),
                                                     (4097, 4096), (50257, 4096), (50304, 4096))])
    report.table("float32_products", [lambda m=m, n=n, k=k: float32_product(m, n, k) for m in (2048, 8192)
                                      for n, k in ((768, 768), (4096, 4096), (14336, 4096), (4096, 14336))])
    report.table("grouped_products", [lambda e=e, t=t, n=n, k=k: grouped_product(e, t, n, k) for e, n, k in
                                      ((8, 14336, 4096), (8, 4096, 14336), (64, 1408, 2048), (64, 2048, 1408), (128, 768, 2048))
                                      for t in (8192, 16384, 65536)])
    report.table("attention", [lambda shape=shape: attention(*shape) for shape in ATTENTION])
    report.table("moving", [lambda m=m, n=n: moving(m, n) for m in TOKENS for n in (768, 1600, 4096, 8192, 32000)])
    report.table("device_adamw", [lambda n=n: device_adamw(n) for n in (10_000_000, 124_000_000, 1_000_000_000)])
    report.table("host_operations", all_host_operations())
    report.table("host_adamw", [lambda n=n, kind=kind: host_adamw(n, kind) for n in (1_000_000, 100_000_000) for kind in ("fused", "foreach", "")])
    report.table("recurrent", [lambda row=row: recurrent(*row) for row in RECURRENT])
    report.table("convolutions", [lambda shape=shape, batch=batch, dtype=dtype, last=last: convolution(shape, batch, dtype, last)
                                  for dtype, last in (("float32", False), ("bfloat16", True)) for batch in (8, 32)
                                  for shape in CONVOLUTIONS])
    print(report.tables["failed"])


if __name__ == "__main__":
    main()
