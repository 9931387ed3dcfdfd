//go:build slim

package charset

type charTable interface{ DecodeByte(byte) rune }

// byteEncodings is empty in a slim program, which reads tables from memory. The tables of the encodings hardly
// compress, and the linker cannot drop them, because their package initialises them.
func byteEncodings() []*Encoding { return nil }
