// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/anchors.h>
#include <kedge/attachment.h>
#include <kedge/bundle.h>
#include <kedge/consensus.h>
#include <kedge/device.h>
#include <kedge/error.h>
#include <kedge/export.h>
#include <kedge/fit.h>
#include <kedge/matrix.h>
#include <kedge/metrics.h>
#include <kedge/option.h>
#include <kedge/outputs.h>
#include <kedge/param.h>
#include <kedge/progress.h>
#include <kedge/relative_map.h>
#include <kedge/row_check.h>
#include <kedge/rows.h>
#include <kedge/similarity.h>
#include <kedge/space.h>
#include <kedge/support.h>
#include <kedge/translate.h>
#include <kedge/validate.h>
#include <kedge/version.h>
#include <kedge/whitening.h>
#include <kedge/wording.h>
