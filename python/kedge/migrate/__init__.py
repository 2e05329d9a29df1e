# SPDX-License-Identifier: Apache-2.0
"""Changes the embedding model under a vector store; kedge-migrate is the command."""
