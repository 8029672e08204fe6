#include "tests/recordings/collectives_models.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/format/json_reader.h"
#include "core/model/huggingface.h"
#include "core/pytorch/engine/aten/matmul.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/models/make_module.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;
using namespace eager;
using eager::Module;  // not the model's

Tensor parameter(Session& s, const Dims& sizes) {
  const Tensor tensor = empty(s, sizes, {.dtype = Dtype::float32, .device = s.settings.device});
  tensor.set_requires_grad(true);
  return tensor;
}

std::shared_ptr<Module> linear_module(Session& s, const std::string& name, std::int64_t in,
                                      std::int64_t out, bool bias) {
  auto module = std::make_shared<Module>();
  module->name = name;
  module->class_name = "Linear";
  module->parameters.push_back({.name = "weight", .tensor = parameter(s, {out, in})});
  module->parameters.push_back({.name = "bias", .tensor = bias ? parameter(s, {out}) : Tensor()});
  module->forward = [](Session& session, Module& self, const Arguments& arguments) -> Tensors {
    return {linear(session, arguments[0], self.parameter("weight"), self.parameter("bias"))};
  };
  return module;
}

std::shared_ptr<Module> block_module(Session& s, const std::string& name, std::int64_t in,
                                     std::int64_t out, const Json& model) {
  auto module = std::make_shared<Module>();
  module->name = name;
  module->class_name = "Block";
  module->children.push_back(
      {"lin", linear_module(s, name + ".lin", in, out, model.value("bias", true))});
  if (const int elements = model.value("buffer", 0); elements > 0)
    module->buffers.push_back(
        {.name = "scale",
         .tensor = ones(s, {elements}, {.dtype = Dtype::float32, .device = s.settings.device})});
  module->forward = [](Session& session, Module& self, const Arguments& arguments) -> Tensors {
    return {tanh(session, call_one(session, self.child("lin"), {arguments[0]}))};
  };
  return module;
}

/// dims d0..dk: blocks d0->d1 ... and a last linear `head`; `unused` is skipped.
RecordedModule mlp(Session& s, const Json& model) {
  const auto dims = model.at("dims").get<std::vector<std::int64_t>>();
  const int skipped = model.contains("unused") && model.at("unused").is_number()
                          ? model.at("unused").get<int>()
                          : -1;
  RecordedModule made{.root = std::make_shared<Module>(), .blocks = {}, .tracked = {}};
  made.root->class_name = "MLP";
  auto layers = std::make_shared<Module>();
  layers->name = "layers";
  layers->class_name = "ModuleList";
  for (std::size_t i = 0; i + 2 < dims.size(); ++i) {
    made.blocks.push_back(fmt::format("layers.{}", i));
    layers->children.push_back(
        {std::to_string(i), block_module(s, made.blocks.back(), dims[i], dims[i + 1], model)});
  }
  made.root->children.push_back({"layers", layers});
  made.root->children.push_back({"head", linear_module(s, "head", dims[dims.size() - 2],
                                                       dims.back(), model.value("bias", true))});
  made.root->forward = [skipped](Session& session, Module& self,
                                 const Arguments& arguments) -> Tensors {
    Tensor x = arguments[0];
    const auto& blocks = self.child("layers").children;
    for (std::size_t i = 0; i < blocks.size(); ++i)
      if (static_cast<int>(i) != skipped) x = call_one(session, *blocks[i].module, {x});
    const Tensor y = call_one(session, self.child("head"), {x});
    return {mean(session, pow(session, y, 2)), y};
  };
  made.tracked = made.blocks;
  made.tracked.push_back("head");
  return made;
}

Json gpt2_config(const Json& m) {
  return {{"model_type", "gpt2"},
          {"architectures", {"GPT2LMHeadModel"}},
          {"n_layer", m.at("layers")},
          {"n_embd", m.at("hidden")},
          {"n_head", m.at("heads")},
          {"vocab_size", m.at("vocab")},
          {"n_positions", m.value("pos", 19)},
          {"n_inner", m.value("inner", Json())},
          {"resid_pdrop", 0.0},
          {"embd_pdrop", 0.0},
          {"attn_pdrop", 0.0},
          {"tie_word_embeddings", m.value("tied", true)}};
}

Json llama_config(const Json& m) {
  return {{"model_type", "llama"},
          {"architectures", {"LlamaForCausalLM"}},
          {"num_hidden_layers", m.at("layers")},
          {"hidden_size", m.at("hidden")},
          {"num_attention_heads", m.at("heads")},
          {"num_key_value_heads", m.value("kv", m.at("heads").get<int>())},
          {"intermediate_size", m.at("inner")},
          {"vocab_size", m.at("vocab")},
          {"max_position_embeddings", 64},
          {"tie_word_embeddings", m.value("tied", false)}};
}

RecordedModule transformer(Session& s, const Json& model) {
  const bool gpt2 = model.at("kind") == "gpt2";
  const Json json = gpt2 ? gpt2_config(model) : llama_config(model);
  const JsonValue config = JsonValue::parse(json.dump(), "case");
  RecordedModule made;
  made.root = make_module(s, model_of_config(config, {.constructor = true}), config,
                          {.attention = AttentionImplementation::eager});
  for (int i = 0; i < model.at("layers").get<int>(); ++i)
    made.blocks.push_back(fmt::format("{}.{}", gpt2 ? "transformer.h" : "model.layers", i));
  made.tracked = gpt2 ? std::vector<std::string>{"transformer.wte", "transformer.wpe"}
                      : std::vector<std::string>{"model.embed_tokens"};
  made.tracked.insert(made.tracked.end(), made.blocks.begin(), made.blocks.end());
  made.tracked.push_back(gpt2 ? "transformer.ln_f" : "model.norm");
  made.tracked.push_back("lm_head");
  return made;
}

void freeze(Module& root, const Json& model) {
  if (!model.contains("frozen")) return;
  const auto prefixes = model.at("frozen").get<std::vector<std::string>>();
  for (const NamedParameter& named : named_parameters_of(root))
    if (std::any_of(prefixes.begin(), prefixes.end(),
                    [&](const std::string& prefix) { return named.name.starts_with(prefix); }))
      named.tensor().set_requires_grad(false);
}

/// class Identity of the recorder.
Tensor identity(Session& s, EventLog& log, const Tensor& input, const std::string& name) {
  return apply_function(
             s, "IdentityBackward", {input},
             [&](Session& session, const NodeRef&) -> Tensors {
               return {view_as(session, input, input)};
             },
             [&log, name](Session&, Node&, Tensors& gradients) {
               log.add("bwd_end", {{"mod", name}});
               return gradients;
             })
      .front();
}

}  // namespace

RecordedModule collectives_model(Session& s, const Json& model) {
  RecordedModule made = model.at("kind") == "mlp" ? mlp(s, model) : transformer(s, model);
  freeze(*made.root, model);
  return made;
}

Arguments collectives_batch(Session& s, const Json& model) {
  const Device device = s.settings.device;
  if (model.at("kind") == "mlp")
    return {{empty(s, {3, model.at("dims").at(0).get<std::int64_t>()},
                   {.dtype = Dtype::float32, .device = device})},
            0};
  const Tensor ids =
      empty(s, {2, model.value("seq", std::int64_t{9})}, {.dtype = Dtype::int64, .device = device});
  return {{ids, Tensor(), ids}, 0};
}

Module& module_named(Module& root, const std::string& name) {
  if (name.empty()) return root;
  for (Module* module : modules_of(root))
    if (module->name == name) return *module;
  throw Error({.where = name, .what = "there is no such module", .way_out = {}});
}

void mark_forward(EventLog& log, Module& module, const std::string& name, bool marks_backward) {
  module.forward_pre_hooks.push_back(
      [&log, name, marks_backward](Session& s, Module&, Arguments& arguments) {
        log.add(log.in_backward() ? "recompute_begin" : "fwd_begin", {{"mod", name}});
        if (!s.grad_enabled || !marks_backward || arguments.positional == 0) return;
        if (arguments.tensors.empty()) return;
        Tensor& first = arguments.tensors.front();
        if (first.defined() && first.requires_grad()) first = identity(s, log, first, name);
      });
  module.forward_hooks.insert(
      module.forward_hooks.begin(), [&log, name](Session&, Module&, const Arguments&, Tensors&) {
        log.add(log.in_backward() ? "recompute_end" : "fwd_end", {{"mod", name}});
      });
}

void mark_backward(EventLog& log, Module& module, const std::string& name, bool marks_backward) {
  module.forward_hooks.push_back(
      [&log, name, marks_backward](Session& s, Module&, const Arguments&, Tensors& outputs) {
        if (!s.grad_enabled || !marks_backward) return;
        const auto seen = std::make_shared<bool>(false);
        for (const Tensor& output : outputs)
          if (output.defined() && output.requires_grad())
            register_hook(s, output, [&log, name, seen](Session&, const Tensor& gradient) {
              if (!std::exchange(*seen, true)) log.add("bwd_begin", {{"mod", name}});
              return gradient;
            });
      });
}

}  // namespace shardscope::recordings
