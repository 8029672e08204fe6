// A tool that listens to NVTX, for the tests: loaded through NVTX_INJECTION64_PATH, it writes a
// line for each call to $SHARDSCOPE_NVTX_LOG.<process id>. $SHARDSCOPE_NVTX_LISTENER: "plain" knows
// no payload schemas, "deaf" refuses every domain. It takes nothing from the heap.
#include <fcntl.h>
#include <nvtx3/nvToolsExtPayload.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string_view>

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

std::mutex mutex;

/// Texts live as long as the process.
const char* keep(const char* text) {
  static std::array<char, 1 << 20> pool;
  static std::size_t used = 0;
  const std::size_t bytes = std::strlen(text) + 1;
  if (used + bytes > pool.size()) std::abort();
  char* kept = pool.data() + used;
  std::memcpy(kept, text, bytes);
  used += bytes;
  return kept;
}

bool is(std::string_view kind) {
  const char* asked = std::getenv("SHARDSCOPE_NVTX_LISTENER");
  return asked != nullptr && kind == asked;
}

class Line {
 public:
  void add(const char* format, ...) __attribute__((format(printf, 2, 3))) {
    va_list arguments;
    va_start(arguments, format);
    const int written =
        std::vsnprintf(text_.data() + size_, text_.size() - size_, format, arguments);
    va_end(arguments);
    size_ = std::min(size_ + static_cast<std::size_t>(written), text_.size() - 1);
  }
  void write() {
    add("\n");
    std::array<char, 4096> path;
    std::snprintf(path.data(), path.size(), "%s.%d", std::getenv("SHARDSCOPE_NVTX_LOG"),
                  static_cast<int>(::getpid()));
    static const int file = ::open(path.data(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (::write(file, text_.data(), size_) < 0) std::abort();
  }

 private:
  std::array<char, 4096> text_;
  std::size_t size_ = 0;
};

struct Schema {
  std::array<nvtxPayloadSchemaEntry_t, 16> entries;
  std::size_t count;
  std::size_t bytes;
};
std::array<Schema, 8> schemas;
std::size_t schema_count = 0;

template <class Value>
Value at(const void* payload, std::size_t offset) {
  Value value;
  std::memcpy(&value, static_cast<const char*>(payload) + offset, sizeof value);
  return value;
}

void add_field(Line& line, const nvtxPayloadSchemaEntry_t& entry, const void* payload) {
  line.add("\t%s=", entry.name);
  switch (entry.type) {
    case NVTX_PAYLOAD_ENTRY_TYPE_UINT32:
      return line.add("%u", at<std::uint32_t>(payload, entry.offset));
    case NVTX_PAYLOAD_ENTRY_TYPE_INT64:
      return line.add("%lld", static_cast<long long>(at<std::int64_t>(payload, entry.offset)));
    case NVTX_PAYLOAD_ENTRY_TYPE_NVTX_REGISTERED_STRING_HANDLE:
      return line.add("%s", at<const char*>(payload, entry.offset));
    default:
      std::abort();
  }
}

void add_extended(Line& line, const nvtxEventAttributes_t& range) {
  const auto* data = reinterpret_cast<const nvtxPayloadData_t*>(range.payload.ullValue);
  if (range.reserved0 != 1) std::abort();
  const Schema& schema = schemas.at(data->schemaId - 1);
  if (data->size != schema.bytes) std::abort();
  for (std::size_t i = 0; i < schema.count; ++i) add_field(line, schema.entries[i], data->payload);
}

void add_payload(Line& line, const nvtxEventAttributes_t& range) {
  if (range.payloadType == NVTX_PAYLOAD_TYPE_EXT) add_extended(line, range);
  if (range.payloadType == NVTX_PAYLOAD_TYPE_INT64)
    line.add("\tvalue=%lld", static_cast<long long>(range.payload.llValue));
}

int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* range) {
  const std::lock_guard lock(mutex);
  if (range->messageType != NVTX_MESSAGE_TYPE_REGISTERED) std::abort();
  Line line;
  line.add("push\t%d\t%s\t%u\t%s", static_cast<int>(::gettid()),
           reinterpret_cast<const char*>(domain), range->category,
           reinterpret_cast<const char*>(range->message.registered));
  add_payload(line, *range);
  line.write();
  return 0;
}

int pop(nvtxDomainHandle_t domain) {
  const std::lock_guard lock(mutex);
  Line line;
  line.add("pop\t%d\t%s", static_cast<int>(::gettid()), reinterpret_cast<const char*>(domain));
  line.write();
  return 0;
}

nvtxDomainHandle_t create_domain(const char* name) {
  const std::lock_guard lock(mutex);
  Line line;
  line.add("create\t%s", name);
  line.write();
  return reinterpret_cast<nvtxDomainHandle_t>(const_cast<char*>(keep(name)));
}

void destroy_domain(nvtxDomainHandle_t domain) {
  const std::lock_guard lock(mutex);
  Line line;
  line.add("destroy\t%s", reinterpret_cast<const char*>(domain));
  line.write();
}

nvtxStringHandle_t register_string(nvtxDomainHandle_t, const char* text) {
  const std::lock_guard lock(mutex);
  return reinterpret_cast<nvtxStringHandle_t>(const_cast<char*>(keep(text)));
}

void name_category(nvtxDomainHandle_t, std::uint32_t category, const char* name) {
  const std::lock_guard lock(mutex);
  Line line;
  line.add("category\t%u\t%s", category, name);
  line.write();
}

std::uint64_t register_schema(nvtxDomainHandle_t, const nvtxPayloadSchemaAttr_t* attributes) {
  const std::lock_guard lock(mutex);
  Schema& schema = schemas.at(schema_count++);
  schema.count = attributes->numEntries;
  schema.bytes = attributes->payloadStaticSize;
  for (std::size_t i = 0; i < schema.count; ++i) {
    schema.entries.at(i) = attributes->entries[i];
    schema.entries[i].name = keep(attributes->entries[i].name);
  }
  return schema_count;
}

std::uint8_t is_enabled(nvtxDomainHandle_t) { return is("deaf") ? 0 : 1; }

template <class Function>
void set(NvtxFunctionTable table, NvtxCallbackIdCore2 id, Function* function) {
  *table[id] = reinterpret_cast<NvtxFunctionPointer>(function);
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): NVTX looks for it
EXPORTED int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t export_table) {
  const auto* callbacks =
      static_cast<const NvtxExportTableCallbacks*>(export_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) != 1) return 0;
  set(table, NVTX_CBID_CORE2_DomainRangePushEx, push);
  set(table, NVTX_CBID_CORE2_DomainRangePop, pop);
  set(table, NVTX_CBID_CORE2_DomainNameCategoryA, name_category);
  set(table, NVTX_CBID_CORE2_DomainRegisterStringA, register_string);
  set(table, NVTX_CBID_CORE2_DomainCreateA, create_domain);
  set(table, NVTX_CBID_CORE2_DomainDestroy, destroy_domain);
  return 1;
}

// NOLINTNEXTLINE(readability-identifier-naming): NVTX looks for it
EXPORTED int InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t* module) {
  if (module->moduleId != NVTX_EXT_PAYLOAD_MODULEID) return 0;
  if (is("plain")) return 1;
  intptr_t* slots = module->segments[0].functionSlots;
  slots[NVTX3EXT_CBID_nvtxPayloadSchemaRegister] = reinterpret_cast<intptr_t>(register_schema);
  slots[NVTX3EXT_CBID_nvtxDomainIsEnabled] = reinterpret_cast<intptr_t>(is_enabled);
  return 1;
}
