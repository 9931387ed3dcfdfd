// Package models runs pretrained transformers on the CPU: encoders that embed texts and decoders that generate them.
//
// It is a module of its own, so that the library stays light. The packages below it are usable alone: weights (tensors
// and configurations), gguf and safetensors (files), token (tokenizers).
package models
