// Package pretrained runs published Transformers with attention by random features: encoders like BERT (MiniLM) and
// decoders like GPT-2, Llama (SmolLM2) and Gemma, from a folder as their publishers lay it out (config.json,
// safetensors, tokenizer).
//
// [Load] checks every tensor against the architecture. [Model.Calibrate] fits the family of every head to the queries
// and keys of a text, [Model.Errors] and [Compare] say what that costs in accuracy, [Tuning] trains what was
// converted, and [Model.Save] writes a folder that Load reads again.
package pretrained
