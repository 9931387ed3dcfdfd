// Package models runs pretrained transformers on the CPU: encoders that embed texts and decoders that generate them.
//
//	m, err := models.Open("all-MiniLM-L6-v2", models.Options{})
//	x, err := m.Encoder.Embed(ctx, []string{"a text", "another"})
//
//	m, err := models.Open("SmolLM2-135M-Instruct.Q4_1.gguf", models.Options{})
//	s, err := m.Decoder.Session()
//	err = s.Read(ctx, m.Tokens.Encode(nil, "The capital of France is"))
//	_, err = s.Generate(ctx, models.Generate{MaxTokens: 20}, func(text string) error { fmt.Print(text); return nil })
//
// It is a module of its own, so that the library stays light. The packages below it are usable alone: weights (tensors
// and configurations), gguf and safetensors (files), token (tokenizers), encoder and decoder (forward passes on ids).
package models
