// CUPTI, loaded when a profile first wants it. Included only where its headers were found.
#pragma once

#include <cupti.h>

#include <string>

namespace shardscope {

/// The functions that we call, under their own names without the prefix.
struct Cupti {
  decltype(&cuptiGetVersion) get_version;
  decltype(&cuptiGetResultString) result_name;
  decltype(&cuptiGetTimestamp) get_timestamp;
  decltype(&cuptiGetGraphNodeId) graph_node_id;
  decltype(&cuptiGetCallbackName) callback_name;
  decltype(&cuptiSubscribe_v2) subscribe;
  decltype(&cuptiUnsubscribe) unsubscribe;
  decltype(&cuptiEnableCallback) enable_callback;
  decltype(&cuptiActivityRegisterCallbacks) register_buffers;
  decltype(&cuptiActivityRegisterTimestampCallback) register_clock;
  decltype(&cuptiActivitySetAttribute) set_attribute;
  decltype(&cuptiActivityEnable) enable;
  decltype(&cuptiActivityDisable) disable;
  decltype(&cuptiActivityEnableAllocationSource) enable_allocation_source;
  decltype(&cuptiActivityEnableCudaEventDeviceTimestamps) enable_event_times;
  decltype(&cuptiActivityPushExternalCorrelationId) push_id;
  decltype(&cuptiActivityPopExternalCorrelationId) pop_id;
  decltype(&cuptiActivityFlushAll) flush_all;
  decltype(&cuptiActivityGetNumDroppedRecords) dropped_records;
  decltype(&cuptiActivityGetNextRecord) next_record;
};

/// Throws Error (ExitCode::outside) where the library or one of its functions is missing; CUDA 13.0
/// has all of them.
const Cupti& cupti();

/// What a refusal of CUPTI's means, who is likely behind it and what can be done: "cuptiSubscribe:
/// another profiler is at work in this process (Nsight Systems); ...". `other` is that profiler's
/// name; empty: not known.
std::string explain(CUptiResult result, const std::string& call, const std::string& other = {});

/// "13.0.1"
std::string cupti_version_text();

}  // namespace shardscope
