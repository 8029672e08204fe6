#include "traces/import/pickle_opcodes.h"

namespace shardscope {
namespace {

using Step = PickleStep;

struct Row {
  unsigned char code;
  PickleOpcode opcode;
};

constexpr Row rows[] = {
    {0x80, {"PROTO", Step::protocol, 1}},
    {0x95, {"FRAME", Step::ignored, 8}},
    {'.', {"STOP", Step::stop}},
    {'(', {"MARK", Step::mark}},
    {'0', {"POP", Step::pop}},
    {'1', {"POP_MARK", Step::pop_mark}},
    {'N', {"NONE", Step::none}},
    {0x88, {"NEWTRUE", Step::boolean, 0, false, 1}},
    {0x89, {"NEWFALSE", Step::boolean, 0, false, 0}},
    {'J', {"BININT", Step::integer, 4}},
    {'K', {"BININT1", Step::integer, 1}},
    {'M', {"BININT2", Step::integer, 2}},
    {0x8A, {"LONG1", Step::long_integer, 1, true}},
    {0x8B, {"LONG4", Step::long_integer, 4, true}},
    {'G', {"BINFLOAT", Step::real, 8}},
    {'X', {"BINUNICODE", Step::text, 4, true}},
    {0x8C, {"SHORT_BINUNICODE", Step::text, 1, true}},
    {0x8D, {"BINUNICODE8", Step::text, 8, true}},
    {'T', {"BINSTRING", Step::text, 4, true}},
    {'U', {"SHORT_BINSTRING", Step::text, 1, true}},
    {'B', {"BINBYTES", Step::bytes, 4, true}},
    {'C', {"SHORT_BINBYTES", Step::bytes, 1, true}},
    {0x8E, {"BINBYTES8", Step::bytes, 8, true}},
    {0x96, {"BYTEARRAY8", Step::bytes, 8, true}},
    {']', {"EMPTY_LIST", Step::new_list}},
    {')', {"EMPTY_TUPLE", Step::new_tuple}},
    {'}', {"EMPTY_DICT", Step::new_dict}},
    {0x85, {"TUPLE1", Step::last_tuple, 0, false, 1}},
    {0x86, {"TUPLE2", Step::last_tuple, 0, false, 2}},
    {0x87, {"TUPLE3", Step::last_tuple, 0, false, 3}},
    {'t', {"TUPLE", Step::marked_tuple}},
    {'l', {"LIST", Step::marked_list}},
    {'d', {"DICT", Step::marked_dict}},
    {'a', {"APPEND", Step::append, 0, false, 1}},
    {'e', {"APPENDS", Step::append}},
    {'s', {"SETITEM", Step::set_item, 0, false, 2}},
    {'u', {"SETITEMS", Step::set_item}},
    {'h', {"BINGET", Step::get, 1}},
    {'j', {"LONG_BINGET", Step::get, 4}},
    {'q', {"BINPUT", Step::put, 1}},
    {'r', {"LONG_BINPUT", Step::put, 4}},
    {0x94, {"MEMOIZE", Step::memoize}},
    {'c', {"GLOBAL", Step::global}},
    {0x93, {"STACK_GLOBAL", Step::stack_global}},
    {'R', {"REDUCE", Step::call}},
    {'b', {"BUILD", Step::build}},
    {'i', {"INST", Step::refused}},
    {'o', {"OBJ", Step::refused}},
    {0x81, {"NEWOBJ", Step::call}},
    {0x92, {"NEWOBJ_EX", Step::refused}},
    {0x82, {"EXT1", Step::refused}},
    {0x83, {"EXT2", Step::refused}},
    {0x84, {"EXT4", Step::refused}},
    {'P', {"PERSID", Step::refused}},
    {'Q', {"BINPERSID", Step::persistent_id}},
    {0x97, {"NEXT_BUFFER", Step::refused}},
    {0x98, {"READONLY_BUFFER", Step::refused}},
    {0x8F, {"EMPTY_SET", Step::refused}},
    {0x90, {"ADDITEMS", Step::refused}},
    {0x91, {"FROZENSET", Step::refused}},
    {'I', {"INT", Step::refused}},
    {'L', {"LONG", Step::refused}},
    {'F', {"FLOAT", Step::refused}},
    {'S', {"STRING", Step::refused}},
    {'V', {"UNICODE", Step::refused}},
    {'g', {"GET", Step::refused}},
    {'p', {"PUT", Step::refused}},
    {'2', {"DUP", Step::refused}},
};

constexpr std::array<PickleOpcode, 256> table() {
  std::array<PickleOpcode, 256> by_code{};
  for (const Row& row : rows) by_code[row.code] = row.opcode;
  return by_code;
}

constexpr std::array<PickleOpcode, 256> by_code = table();

}  // namespace

const std::array<PickleOpcode, 256>& pickle_opcodes() { return by_code; }

}  // namespace shardscope
