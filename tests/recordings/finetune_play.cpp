// run_case() of record.py: load, adapt, wrap, train, and what follows, under the caching allocator.
#include <map>
#include <set>

#include "core/format/safetensors.h"
#include "core/pytorch/runtimes/training/phases.h"
#include "sim/planner/memory_play.h"
#include "tests/recordings/finetune.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;
using eager::Moment;
using eager::Tensor;

planner::MemoryPlay::Setting setting_of(const FineTuneCase& recorded, bool bare) {
  const double gib = recorded.settings.at("mem_gib").get<double>();
  return {.session = recorded.setup.session,
          .device = {.blas_workspaces = !bare},
          .allocator =
              parse_allocator_settings(recorded.settings.at("conf").get<std::string>(), "conf"),
          .memory = {static_cast<std::int64_t>(gib * 1073741824.0)}};
}

class FineTunePlay {
 public:
  FineTunePlay(const FineTuneCase& recorded, bool bare)
      : recorded_(recorded),
        play_(setting_of(recorded, bare)),
        session_(play_.session()),
        allocator_(play_.allocator()) {
    // The context's first block, which is gone before anything is recorded.
    if (const auto first = allocator_.allocate({4}, default_stream)) allocator_.free(*first);
    allocator_.empty_cache();
  }

  Json play() {
    set_up();
    for (int i = 0; i < recorded_.settings.at("iters").get<int>(); ++i) iterate();
    result_["optimizer_state"] = optimizer_state();
    for (const Json& phase : recorded_.settings.at("phases")) {
      const auto name = phase.get<std::string>();
      play_phase(name, result_["phases"][name]);
    }
    return std::move(result_);
  }

 private:
  Json figures(std::int64_t Gauge::*which) const {
    const AllocatorStatistics& s = allocator_.statistics();
    return {s.allocated_bytes.*which, s.active_bytes.*which, s.requested_bytes.*which,
            s.reserved_bytes.*which};
  }

  void begin() { play_.begin(); }

  void end(Json& store, const std::string& name) {
    play_.catch_up();
    store["peak"][name] = figures(&Gauge::peak);
    store["after"][name] = figures(&Gauge::current);
    allocator_.reset_peaks();
  }

  void set_up() {
    Json& setup = result_["setup"];
    begin();
    run_ = std::make_unique<eager::TrainingRun>(
        session_, recorded_.model, recorded_.config, recorded_.setup,
        [&](eager::SetupMoment moment) {
          static const std::map<eager::SetupMoment, std::string> names{
              {eager::SetupMoment::loaded, "load"},
              {eager::SetupMoment::adapted, "adapter"},
              {eager::SetupMoment::wrapped, "wrap"}};
          end(setup, names.at(moment));
          // An optimizer takes nothing from the device before its first step.
          if (moment == eager::SetupMoment::wrapped) end(setup, "optimizer");
        });
    session_.empty_cache();
    play_.catch_up();
    setup["after"]["empty_cache"] = figures(&Gauge::current);
    watch_outputs();
    const auto strategy = recorded_.settings.at("strategy").get<std::string>();
    if (strategy == "fsdp1" || strategy == "fsdp2")
      result_["local_trainable_elements"] = trainable_elements();
  }

  void watch_outputs() {
    run_->model().module().forward_hooks.push_back(
        [this](eager::Session&, eager::Module&, const eager::Arguments&, eager::Tensors& outputs) {
          if (result_.contains("logits")) return;
          Json shape = Json::array();
          for (const std::int64_t size : outputs[1].sizes()) shape.push_back(size);
          result_["logits"] = {std::string(name_of(outputs[1].dtype())), shape};
          result_["loss_dtype"] = std::string(name_of(outputs[0].dtype()));
        });
  }

  eager::Tensors trainable() const {
    eager::Tensors tensors;
    for (const Tensor& p : run_->model().parameters())
      if (p.requires_grad()) tensors.push_back(p);
    return tensors;
  }

  std::int64_t trainable_elements() const {
    std::int64_t elements = 0;
    for (const Tensor& p : trainable()) elements += p.numel();
    return elements;
  }

  void note_gradients() {
    Json gradients = Json::object();
    int without = 0;
    for (const Tensor& p : trainable()) {
      last_parameter_ = p;
      if (!p.grad()) {
        ++without;
        continue;
      }
      Json& row = gradients[std::string(name_of(p.grad().dtype()))];
      if (row.is_null()) row = {{"tensors", 0}, {"bytes", 0}};
      row["tensors"] = row["tensors"].get<int>() + 1;
      row["bytes"] = row["bytes"].get<std::int64_t>() + p.grad().bytes().count;
      last_gradient_ = p.grad();
    }
    result_["gradients"] = gradients;
    result_["trainable_without_gradient"] = without;
  }

  void iterate() {
    Json row = Json::object();
    const bool first = result_["iterations"].empty();
    run_->loop().iteration([&](Moment moment, int) {
      switch (moment) {
        case Moment::start:
          return begin();
        case Moment::micro_batch:
        case Moment::forward:
          return;
        case Moment::loss:
          return end(row, "forward");
        case Moment::backward:
          end(row, "backward");
          if (first) note_gradients();
          return play_.begin_after_frees();  // del loss
        case Moment::clip:
          return end(row, "clip");
        case Moment::step:
          return end(row, "step");
        case Moment::zero_grad:
          return end(row, "zero_grad");
      }
    });
    const AllocatorStatistics& s = allocator_.statistics();
    row["counts"] = {{"device_alloc", s.device_allocations},
                     {"device_free", s.device_frees},
                     {"alloc_retries", s.retries},
                     {"segments", s.segments.current}};
    result_["iterations"].push_back(row);
  }

  /// optimizer_state() of record.py: each storage once.
  Json optimizer_state() const {
    Json bytes{{"device", 0}, {"managed", 0}, {"host", 0}};
    Json tensors = Json::array();
    std::set<const eager::StorageImpl*> seen;
    const eager::ParameterOptimizer& optimizer = run_->loop().optimizer();
    const bool bits = optimizer.settings().bitsandbytes.has_value();
    const bool factored = optimizer.settings().rule == eager::OptimizerRule::adafactor;
    const auto note = [&](const char* key, const Tensor& tensor, bool paged) {
      if (!tensor) return;
      const bool on_device = tensor.device() == eager::Device::cuda;
      const std::string where = on_device ? "device" : paged ? "managed" : "host";
      const std::string dtype(name_of(tensor.dtype()));
      bool counted = false;
      for (Json& row : tensors)
        if (row["key"] == key && row["dtype"] == dtype && row["where"] == where) {
          row["count"] = row["count"].get<int>() + 1;
          counted = true;
        }
      if (!counted)
        tensors.push_back({{"key", key}, {"dtype", dtype}, {"where", where}, {"count", 1}});
      if (tensor.storage()->bytes().count > 0 && !seen.insert(tensor.storage().get()).second)
        return;
      bytes[where] = bytes[where].get<std::int64_t>() + tensor.storage()->bytes().count;
    };
    for (const eager::ParameterOptimizer::State& state : optimizer.states()) {
      const auto table = [&](std::size_t i) {
        return state.first_scales && i < optimizer.code_tables().size() ? optimizer.code_tables()[i]
                                                                        : Tensor();
      };
      if (factored) {
        note(state.second_moment ? "exp_avg_sq_row" : "exp_avg_sq", state.first_moment, false);
        note("exp_avg_sq_col", state.second_moment, false);
        note("RMS", state.scale, false);
        continue;
      }
      note("step", state.step, false);
      note(bits ? "state1" : "exp_avg", state.first_moment, bits);
      note("qmap1", table(0), false);
      note(bits ? "state2" : "exp_avg_sq", state.second_moment, bits);
      note("qmap2", table(1), false);
      note("absmax1", state.first_scales, false);
      note("absmax2", state.second_scales, false);
    }
    return {{"bytes", bytes}, {"tensors", tensors}};
  }

  void play_phase(const std::string& name, Json& store) {
    if (name == "eval") return evaluate(store);
    if (name.starts_with("full_state_dict")) return gather(name, store);
    if (name == "save_adapter") return save_adapter(store);
    if (name == "save_fsdp1") return save_fsdp1(store);
    if (name == "save_pretrained") return save_pretrained(store);
    if (name == "merge") return merge(store);
  }

  void evaluate(Json& store) {
    eager::set_training(run_->model().module(), false);
    std::vector<Tensor> kept;
    for (const char* name : {"forward_1", "forward_2"}) {
      begin();
      kept.push_back(eager::evaluate(session_, *run_));
      end(store, name);
    }
    kept.clear();
    end(store, "dropped");
    eager::set_training(run_->model().module(), true);
  }

  void gather(const std::string& name, Json& store) {
    begin();
    auto entries =
        eager::full_state_dict(session_, *run_,
                               {.cpu_offload = name.find("cpu") != std::string::npos,
                                .trainable_only = name.find("trainable") != std::string::npos});
    end(store, "state_dict");
    store["entries"] = entries.size();
    Json bytes = Json::object();
    for (const auto& [key, tensor] : entries) {
      const std::string place = (tensor.device() == eager::Device::cuda ? "cuda:" : "cpu:") +
                                std::string(name_of(tensor.dtype()));
      bytes[place] = bytes.value(place, std::int64_t{0}) + tensor.bytes().count;
    }
    store["bytes"] = bytes;
    last_gradient_ = {};
    begin();
    entries.clear();
    end(store, "dropped");
  }

  void save_adapter(Json& store) {
    begin();
    const auto tensors = eager::adapter_tensors(session_, *run_);
    end(store, "save_pretrained");
    store["file_bytes"] = safetensors_header(tensors, {{"format", "pt"}}).file_bytes;
  }

  /// accelerate's save_fsdp_model: PEFT takes the adapter out of the whole model's state on rank 0.
  void save_fsdp1(Json& store) {
    begin();
    eager::full_state_dict(session_, *run_, {.cpu_offload = true});
    end(store, "save");
  }

  /// A model without an adapter is written from where it lies: the device gives nothing more.
  void save_pretrained(Json& store) {
    begin();
    if (recorded_.setup.fine_tuning->adapter) eager::adapter_tensors(session_, *run_);
    end(store, "save_pretrained");
  }

  void merge(Json& store) {
    begin();
    code_tables_ = run_->loop().optimizer().code_tables();
    eager::merge_and_unload(session_, *run_);
    end(store, "merge");
  }

  const FineTuneCase& recorded_;
  planner::MemoryPlay play_;
  eager::Session& session_;
  CachingAllocator& allocator_;
  std::unique_ptr<eager::TrainingRun> run_;
  /// record.py's variables p and t, which keep what its first iteration counted last.
  Tensor last_parameter_, last_gradient_;
  /// What its optimizer of 8 bits keeps when its states and parameters are gone (name2qmap).
  eager::Tensors code_tables_;
  Json result_ = Json::object();
};

}  // namespace

Json played_finetune(const FineTuneCase& recorded, bool bare) {
  return FineTunePlay(recorded, bare).play();
}

}  // namespace shardscope::recordings
