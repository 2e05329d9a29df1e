// SPDX-License-Identifier: Apache-2.0
#pragma once

// Everything: these include all others.
#include <kedge/anchors.h>
#include <kedge/export.h>
#include <kedge/retrieve.h>
#include <kedge/validate.h>
#include <kedge/version.h>
