// The namespace of the kernels for the instruction set that this file is compiled for (CMake says
// which).
#pragma once

#ifndef SHARDSCOPE_CPU_ISA
#define SHARDSCOPE_CPU_ISA baseline
#endif

#define SHARDSCOPE_CPU_ISA_TEXT_(name) #name
#define SHARDSCOPE_CPU_ISA_TEXT(name) SHARDSCOPE_CPU_ISA_TEXT_(name)
