// Package pretrained runs published Transformers with random-feature or centroid attention: encoders like BERT (MiniLM)
// and decoders like GPT-2, Llama (SmolLM2) and Gemma. It reads the folders of their publishers (config.json,
// safetensors, tokenizer).
//
// Use it in this order:
//
//	m, err := pretrained.Load(dir)                       // checks every tensor against the architecture
//	passages, err := m.Tokens(text, 512)
//	a, err := m.Calibrate(backend, plan, passages)       // fits the family of every head
//	heads, err := m.Errors(backend, a, other)            // error per layer and head, on other passages
//	err = m.SetAttention(a)
//	err = m.Save(out)                                    // a folder that Load reads again
//
// [Compare] measures what the conversion costs in accuracy and time. [Tuning] trains a converted model to recover
// accuracy, and [Model.Generate] continues a prompt.
package pretrained
