// SPDX-License-Identifier: Apache-2.0
#pragma once

// Marks a function that is compiled for each generation of processors; the right one is chosen when the program starts.
// clang 14 does not know the names of generations, and sanitizers do not survive the choice at start-up.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define KEDGE_EVERY_PROCESSOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define KEDGE_EVERY_PROCESSOR
#endif
