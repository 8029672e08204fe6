// Optimizers, gradient clipping and learning-rate schedules of the kind `ops`.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/native/learning_rate.h"
#include "tests/recordings/ops_case.h"
#include "tests/recordings/ops_device.h"

namespace shardscope::recordings {
namespace {

using Floats = std::vector<float>;

Slice whole(const Floats& values, bool decay) {
  return {.parameter = {0},
          .offset = 0,
          .elements = static_cast<std::int64_t>(values.size()),
          .parameter_offset = 0,
          .piece = 0,
          .decay = decay};
}

/// Tensors one after the other, each from a multiple of 256 elements on, as in a shard.
struct Storage {
  Floats values;
  std::vector<Slice> slices;
  std::int64_t pieces = 0;
};

Storage gathered_gradients(const OpsCase& c) {
  Storage s;
  const std::size_t count = c.settings().at("shapes").size();
  for (std::size_t n = 0; n < count; ++n) {
    const Floats g = c.input(fmt::format("g{}", n));
    Slice slice = whole(g, false);
    slice.parameter = ParameterId::of(n);
    slice.offset = static_cast<std::int64_t>(s.values.size());
    slice.piece = s.pieces;
    s.slices.push_back(slice);
    s.values.insert(s.values.end(), g.begin(), g.end());
    s.pieces += (slice.elements + piece_elements - 1) / piece_elements;
    s.values.resize(static_cast<std::size_t>(s.pieces * piece_elements));
  }
  return s;
}

LearningRate::Kind kind_of(const std::string& name) {
  if (name == "cosine_with_warmup") return LearningRate::Kind::hf_cosine;
  if (name == "cosine_with_min_lr") return LearningRate::Kind::hf_cosine_with_min;
  if (name == "linear_with_warmup") return LearningRate::Kind::linear;
  if (name == "constant_with_warmup") return LearningRate::Kind::constant;
  throw Error({.where = "schedule", .what = "no schedule for " + name, .way_out = {}});
}

LearningRate rate_of(const nlohmann::ordered_json& settings) {
  LearningRate rate;
  rate.kind = kind_of(settings.at("kind").get<std::string>());
  rate.peak = settings.at("peak").get<double>();
  rate.warmup = settings.at("warmup").get<std::int64_t>();
  rate.total = settings.value("total", std::int64_t{0});
  const auto options = settings.value("options", nlohmann::ordered_json::object());
  for (const auto& [key, value] : options.items()) {
    if (key == "num_cycles")
      rate.cycles = value.get<double>();
    else if (key == "min_lr")
      rate.min = value.get<double>();
    else
      throw Error({.where = "schedule", .what = "no option " + key, .way_out = {}});
  }
  return rate;
}

}  // namespace

void check_adamw(OpsCase& c) {
  const std::int64_t start = c.settings().value("start_step", std::int64_t{0});
  const AdamWKernel kernel{.epsilon = c.number("eps"),
                           .beta1 = c.settings().at("betas").at(0).get<double>(),
                           .beta2 = c.settings().at("betas").at(1).get<double>(),
                           .weight_decay = c.number("weight_decay")};
  Floats p = c.input("p");
  Floats m = start > 0 ? c.input("m") : Floats(p.size());
  Floats v = start > 0 ? c.input("v") : Floats(p.size());
  for (std::int64_t s = 0; s < c.integer("steps"); ++s) {
    Floats g = c.input(fmt::format("g{}", s));
    run_kernel(kernel, {nullptr, g, p, m, v}, {whole(p, true)},
               {.learning_rate = c.number("lr"), .step = start + s + 1});
    c.compare(fmt::format("p{}", s), p);
    c.compare(fmt::format("m{}", s), m);
    c.compare(fmt::format("v{}", s), v);
  }
}

void check_sgd(OpsCase& c) {
  const SgdKernel kernel{.nesterov = c.settings().at("nesterov").get<bool>(),
                         .momentum = c.number("momentum"),
                         .weight_decay = c.number("weight_decay")};
  Floats p = c.input("p"), momentum(p.size());
  for (std::int64_t s = 0; s < c.integer("steps"); ++s) {
    Floats g = c.input(fmt::format("g{}", s));
    run_kernel(kernel, {nullptr, g, p, momentum}, {whole(p, true)},
               {.learning_rate = c.number("lr"), .step = s + 1});
    c.compare(fmt::format("p{}", s), p);
    c.compare(fmt::format("m{}", s), momentum);
  }
}

void check_clip_grad_norm(OpsCase& c) {
  Storage g = gathered_gradients(c);
  std::vector<double> pieces(static_cast<std::size_t>(g.pieces)), clip(2);
  run_kernel(SumOfSquaresKernel{}, {g.values, pieces}, g.slices);
  run_kernel(
      ClipCoefficientKernel{.has_clip = true, .pieces = g.pieces, .clip = c.number("max_norm")},
      {pieces, clip}, g.slices);
  c.compare("norm", std::vector<double>{clip[0]});
  // The factor is applied inside the optimizers: SGD with rate -1 from 0 leaves the clipped
  // gradient.
  Floats clipped(g.values.size());
  run_kernel(SgdKernel{}, {clip, g.values, clipped, nullptr}, g.slices,
             {.learning_rate = -1, .step = 1});
  for (std::size_t n = 0; n < g.slices.size(); ++n) {
    const auto begin = clipped.begin() + g.slices[n].offset;
    c.compare(fmt::format("clipped{}", n), Floats(begin, begin + g.slices[n].elements));
  }
}

void check_schedule(OpsCase& c) {
  const LearningRate rate = rate_of(c.settings());
  const auto expected = c.settings().at("results").at("lr").get<std::vector<double>>();
  std::vector<double> ours;
  for (std::size_t s = 0; s < expected.size(); ++s)
    ours.push_back(learning_rate(rate, static_cast<std::int64_t>(s)));
  // Both are double precision; a rate near 0 is a difference of numbers near 1.
  c.compare("lr", ours, expected, 1e-15 * rate.peak);
}

}  // namespace shardscope::recordings
