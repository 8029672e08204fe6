#include "backend/profile/nvtx_ranges.h"

#include <fmt/format.h>
#include <nvtx3/nvToolsExtPayload.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/executor/allocation_counter.h"

namespace shardscope {
namespace {

enum class Level : std::uint32_t { step = 1, phase, unit, operation, collective };

/// What tells the levels apart in a tool: a name, and a colour (ARGB).
struct LevelStyle {
  Level level;
  const char* name;
  std::uint32_t colour;
};
constexpr std::array level_styles{LevelStyle{Level::step, "step", 0xff9e9e9e},
                                  LevelStyle{Level::phase, "phase", 0xff4a6fa5},
                                  LevelStyle{Level::unit, "unit", 0xff6aa84f},
                                  LevelStyle{Level::operation, "operation", 0xffb7b7b7},
                                  LevelStyle{Level::collective, "collective", 0xffe69138}};

struct OperationPayload {
  std::uint32_t operation;
  std::int64_t bytes;
  std::int64_t flops;
};

struct CollectivePayload {
  std::uint32_t operation;
  std::int64_t bytes;
  std::int64_t elements_in;
  std::int64_t elements_out;
  nvtxStringHandle_t dtype;
  nvtxStringHandle_t group;
  nvtxStringHandle_t ranks;
};

nvtxPayloadSchemaEntry_t entry(std::uint64_t type, const char* name, std::size_t offset) {
  nvtxPayloadSchemaEntry_t entry{};
  entry.type = type;
  entry.name = name;
  entry.offset = offset;
  return entry;
}

constexpr std::uint64_t id_type = NVTX_PAYLOAD_ENTRY_TYPE_UINT32;
constexpr std::uint64_t count_type = NVTX_PAYLOAD_ENTRY_TYPE_INT64;
constexpr std::uint64_t text_type = NVTX_PAYLOAD_ENTRY_TYPE_NVTX_REGISTERED_STRING_HANDLE;

template <std::size_t Entries>
std::uint64_t register_schema(nvtxDomainHandle_t domain, const char* name, std::size_t bytes,
                              const std::array<nvtxPayloadSchemaEntry_t, Entries>& entries) {
  nvtxPayloadSchemaAttr_t schema{};
  schema.fieldMask = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NAME | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE |
                     NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES |
                     NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES |
                     NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE;
  schema.name = name;
  schema.type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC;
  schema.entries = entries.data();
  schema.numEntries = entries.size();
  schema.payloadStaticSize = bytes;
  return nvtxPayloadSchemaRegister(domain, &schema);
}

std::uint64_t operation_schema(nvtxDomainHandle_t domain) {
  using Payload = OperationPayload;
  return register_schema(domain, "operation", sizeof(Payload),
                         std::array{entry(id_type, "operation", offsetof(Payload, operation)),
                                    entry(count_type, "bytes", offsetof(Payload, bytes)),
                                    entry(count_type, "flops", offsetof(Payload, flops))});
}

std::uint64_t collective_schema(nvtxDomainHandle_t domain) {
  using Payload = CollectivePayload;
  return register_schema(
      domain, "collective", sizeof(Payload),
      std::array{entry(id_type, "operation", offsetof(Payload, operation)),
                 entry(count_type, "bytes", offsetof(Payload, bytes)),
                 entry(count_type, "elements in", offsetof(Payload, elements_in)),
                 entry(count_type, "elements out", offsetof(Payload, elements_out)),
                 entry(text_type, "dtype", offsetof(Payload, dtype)),
                 entry(text_type, "group", offsetof(Payload, group)),
                 entry(text_type, "ranks", offsetof(Payload, ranks))});
}

/// Does the operation go on to its own phase and unit? Collectives and waits are queued ahead.
bool leads(const Operation& operation) {
  return !is_collective(operation.kind) && operation.kind != OperationKind::host;
}

/// "0, 2, 4", "0 .. 511 by 1".
std::string text_of(const Ranks& ranks) {
  if (ranks.size() > 8 && ranks.stride())
    return fmt::format("{} .. {} by {}", ranks.front(), ranks.back(), *ranks.stride());
  return fmt::format("{}", fmt::join(ranks.list(), ", "));
}

class NvtxRanges : public Probe {
 public:
  NvtxRanges(nvtxDomainHandle_t domain, const Schedule& schedule);
  NvtxRanges(const NvtxRanges&) = delete;
  NvtxRanges& operator=(const NvtxRanges&) = delete;
  ~NvtxRanges() override {
    leave_phase();
    nvtxDomainDestroy(domain_);
  }

  void begin_step(std::int64_t step) override {
    leave_phase();
    nvtxEventAttributes_t range = step_;
    range.payload.llValue = step;
    push(range);
  }
  void end_step() override {
    leave_phase();
    pop();
  }
  void begin(OperationId id) override {
    if (leads(schedule_.at(id))) enter(schedule_.at(id));
    push(operations_[id.value]);
  }
  void end(OperationId) override { pop(); }
  void begin_capture() override { push(capture_); }
  void end_capture() override {
    leave_phase();
    pop();
  }

 private:
  /// Where the thread that walks the step is.
  struct Place {
    Phase phase = Phase::other;
    std::int16_t micro_batch = 0;
    bool operator==(const Place&) const = default;
  };

  nvtxEventAttributes_t attributes(Level level, const std::string& name) const;
  nvtxStringHandle_t registered(const std::string& text) const {
    return nvtxDomainRegisterStringA(domain_, text.c_str());
  }
  void name_levels();
  void register_groups();
  void register_operations();
  void describe(OperationId id, nvtxEventAttributes_t& range);
  void enter(const Operation& operation);
  void leave_phase();
  void leave_unit();
  /// What a tool takes from the heap meanwhile is its own.
  void push(const nvtxEventAttributes_t& range) const {
    const LibraryCall library;
    nvtxDomainRangePushEx(domain_, &range);
  }
  void pop() const {
    const LibraryCall library;
    nvtxDomainRangePop(domain_);
  }

  nvtxDomainHandle_t domain_;
  const Schedule& schedule_;
  nvtxEventAttributes_t step_, capture_;
  std::vector<nvtxEventAttributes_t> phases_;      ///< by phase
  std::vector<nvtxEventAttributes_t> units_;       ///< by unit
  std::vector<nvtxEventAttributes_t> operations_;  ///< by operation
  std::vector<nvtxStringHandle_t> group_names_, group_ranks_;
  std::vector<OperationPayload> operation_payloads_;    ///< by operation
  std::vector<CollectivePayload> collective_payloads_;  ///< by operation
  std::vector<nvtxPayloadData_t> payloads_;             ///< by operation
  std::uint64_t operation_schema_, collective_schema_;
  std::optional<Place> place_;
  UnitId unit_;
};

NvtxRanges::NvtxRanges(nvtxDomainHandle_t domain, const Schedule& schedule)
    : domain_(domain),
      schedule_(schedule),
      step_(attributes(Level::step, "step")),
      capture_(attributes(Level::step, "capture")),
      operation_payloads_(schedule.operations.size()),
      collective_payloads_(schedule.operations.size()),
      payloads_(schedule.operations.size()),
      operation_schema_(operation_schema(domain)),
      collective_schema_(collective_schema(domain)) {
  step_.payloadType = NVTX_PAYLOAD_TYPE_INT64;
  for (const LevelStyle& style : level_styles)
    nvtxDomainNameCategoryA(domain_, static_cast<std::uint32_t>(style.level), style.name);
  for (int phase = 0; phase <= static_cast<int>(Phase::other); ++phase) {
    phases_.push_back(attributes(Level::phase, std::string(name_of(static_cast<Phase>(phase)))));
    phases_.back().payloadType = NVTX_PAYLOAD_TYPE_INT64;
  }
  for (const Unit& unit : schedule.units)
    units_.push_back(attributes(Level::unit, unit.name.empty() ? "root" : unit.name));
  register_groups();
  register_operations();
}

nvtxEventAttributes_t NvtxRanges::attributes(Level level, const std::string& name) const {
  nvtxEventAttributes_t range{};
  range.version = NVTX_VERSION;
  range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  range.category = static_cast<std::uint32_t>(level);
  range.colorType = NVTX_COLOR_ARGB;
  range.color = level_styles[static_cast<std::size_t>(level) - 1].colour;
  range.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  range.message.registered = registered(name);
  return range;
}

void NvtxRanges::register_groups() {
  for (const Group& group : schedule_.groups) {
    group_names_.push_back(registered(group.name));
    group_ranks_.push_back(registered(text_of(group.ranks)));
  }
}

void NvtxRanges::register_operations() {
  for (std::size_t i = 0; i < schedule_.operations.size(); ++i) {
    const Operation& operation = schedule_.operations[i];
    const Level level = is_collective(operation.kind) ? Level::collective : Level::operation;
    operations_.push_back(attributes(level, std::string(schedule_.name(operation))));
    describe(OperationId::of(i), operations_.back());
  }
}

void NvtxRanges::describe(OperationId id, nvtxEventAttributes_t& range) {
  const Operation& operation = schedule_.at(id);
  nvtxPayloadData_t& data = payloads_[id.value];
  if (is_collective(operation.kind)) {
    const Collective& collective = schedule_.collectives[operation.detail];
    CollectivePayload& payload = collective_payloads_[id.value];
    payload = {.operation = id.value,
               .bytes = operation.bytes.count,
               .elements_in = collective.elements_in,
               .elements_out = collective.elements_out,
               .dtype = registered(std::string(name_of(collective.dtype))),
               .group = group_names_[collective.group.value],
               .ranks = group_ranks_[collective.group.value]};
    data = {collective_schema_, sizeof payload, &payload};
  } else {
    OperationPayload& payload = operation_payloads_[id.value];
    payload = {id.value, operation.bytes.count, operation.flops.count};
    data = {operation_schema_, sizeof payload, &payload};
  }
  if (data.schemaId == 0) {
    range.payloadType = NVTX_PAYLOAD_TYPE_INT64;
    range.payload.llValue = operation.bytes.count;
  } else {
    range.payloadType = NVTX_PAYLOAD_TYPE_EXT;
    range.reserved0 = 1;  // that many payloads
    range.payload.ullValue = NVTX_POINTER_AS_PAYLOAD_ULLVALUE(&data);
  }
}

void NvtxRanges::enter(const Operation& operation) {
  const Place place{operation.phase, operation.micro_batch};
  if (place_ != place) {
    leave_phase();
    place_ = place;
    nvtxEventAttributes_t range = phases_[static_cast<std::size_t>(place.phase)];
    range.payload.llValue = place.micro_batch;
    push(range);
  }
  if (unit_ == operation.unit) return;
  leave_unit();
  if (!operation.unit) return;
  unit_ = operation.unit;
  push(units_[operation.unit.value]);
}

void NvtxRanges::leave_phase() {
  leave_unit();
  if (std::exchange(place_, std::nullopt)) pop();
}

void NvtxRanges::leave_unit() {
  if (std::exchange(unit_, UnitId{})) pop();
}

}  // namespace

std::unique_ptr<Probe> make_nvtx_ranges(const Schedule& schedule) {
  // Without a tool there is no domain; a tool may also refuse ours.
  const nvtxDomainHandle_t domain = nvtxDomainCreateA("Shardscope");
  if (domain == nullptr) return nullptr;
  if (nvtxDomainIsEnabled(domain) == 0) {
    nvtxDomainDestroy(domain);
    return nullptr;
  }
  return std::make_unique<NvtxRanges>(domain, schedule);
}

}  // namespace shardscope
