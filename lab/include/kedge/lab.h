// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/lab/head.h>
#include <kedge/lab/results.h>
#include <kedge/lab/stitch.h>
