# SPDX-License-Identifier: Apache-2.0
"""kedge makes independently trained encoders speak one language."""
