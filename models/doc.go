// Package models runs pretrained transformers on the CPU: encoders that embed texts and decoders that generate them.
//
// Embed texts with an encoder:
//
//	m, err := models.Open("all-MiniLM-L6-v2", models.Options{})
//	x, err := m.Encoder.Embed(ctx, []string{"a text", "another"})
//
// Generate text with a decoder. A session reads the prompt first and then continues it:
//
//	m, err := models.Open("SmolLM2-135M-Instruct.Q4_1.gguf", models.Options{})
//	s, err := m.Decoder.Session()
//	err = s.Read(ctx, m.Tokens.Encode(nil, "The capital of France is"))
//	_, err = s.Generate(ctx, models.Generate{MaxTokens: 20}, func(text string) error { fmt.Print(text); return nil })
//
// Decoders attend exactly. To shrink the memory of a long text that was read, call [Session.KeepQueries] before reading
// and [Session.Compact] after it. [Decoder.Calibrate] measures how many keys every head needs, [Decoder.With] uses
// that, and [Decoder.CheckCompact] measures the loss on other text.
//
// [Session.Save] writes a session to a file; [Decoder.Resume] continues it bit for bit.
//
// Files: open.go opens models, generate.go has decoders and sessions, session.go the format of saved sessions,
// embed.go encoders, rank.go cross-encoders, chat.go conversation formats; calibrate.go measures heads, and compact.go
// the error and the speed of compacted sessions.
//
// This is a module of its own, so the main library does not depend on it. The packages below it also work alone:
// weights (tensors and configurations), gguf and safetensors (files), token (tokenizers), encoder and decoder
// (forward passes on token ids).
package models
