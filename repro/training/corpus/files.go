package corpus

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// maxText is the largest text that ReadText accepts, in bytes.
const maxText = 1 << 30

// ReadText reads a text file, uncompressed if its name ends in .gz, without a byte-order mark.
func ReadText(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(file, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			return "", fmt.Errorf("%s: %w", file, err)
		}
	}
	b, err := io.ReadAll(io.LimitReader(r, maxText+1))
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	if len(b) > maxText {
		return "", fmt.Errorf("%w: %s has more than %d bytes", ErrData, file, maxText)
	}
	return string(bytes.TrimPrefix(b, []byte("\ufeff"))), nil
}

// Texts returns the training and held-out texts of a public set in a folder of data sets: ptb, tinyshakespeare (the
// last tenth is held out) or wikitext2 (which trains on its validation part, because its training part is not
// included).
func Texts(dir, name string) (train, held string, err error) {
	read := func(parts ...string) string {
		if err != nil {
			return ""
		}
		var s string
		s, err = ReadText(filepath.Join(append([]string{dir}, parts...)...))
		return s
	}
	switch name {
	case "ptb":
		return read("ptb", "ptb.train.txt.gz"), read("ptb", "ptb.valid.txt.gz"), err
	case "wikitext2":
		return read("wikitext2", "wiki.valid.tokens.gz"), read("wikitext2", "wiki.test.tokens.gz"), err
	case "tinyshakespeare":
		train, held = Split(read("tinyshakespeare", "input.txt.gz"))
		return train, held, err
	}
	return "", "", fmt.Errorf("%w: no text %q: take ptb, wikitext2 or tinyshakespeare, or a file", ErrData, name)
}

// Split holds out about the last tenth of a text, beginning at a line.
func Split(text string) (train, held string) {
	at := len(text) * 9 / 10
	if i := strings.IndexByte(text[at:], '\n'); i >= 0 {
		at += i + 1
	}
	return text[:at], text[at:]
}

// Sentence is a labelled text of a file.
type Sentence struct {
	Text  string
	Label int32
}

// Sentences returns the training and held-out parts of a small GLUE set: CoLA, SST2, MRPC or RTE. The sentences of a
// pair are joined by " | ".
func Sentences(dir, name string) (train, held []Sentence, err error) {
	files := [2]string{"train.tsv.gz", "dev.tsv.gz"}
	if name == "MRPC" {
		files = [2]string{"msr_paraphrase_train.txt.gz", "msr_paraphrase_test.txt.gz"}
	}
	var out [2][]Sentence
	for i, file := range files {
		file = filepath.Join(dir, "glue", name, file)
		text, err := ReadText(file)
		if err != nil {
			return nil, nil, err
		}
		n := 0
		for line := range strings.Lines(text) {
			n++
			c := strings.Split(strings.TrimRight(line, "\r\n"), "\t")
			var s Sentence
			label := ""
			switch {
			case name == "CoLA" && len(c) == 4:
				s.Text, label = c[3], c[1]
			case name == "SST2" && len(c) == 2:
				s.Text, label = c[0], c[1]
			case name == "MRPC" && len(c) == 5:
				s.Text, label = c[3]+" | "+c[4], c[0]
			case name == "RTE" && len(c) == 4:
				s.Text, label = c[1]+" | "+c[2], c[3]
			default:
				return nil, nil, fmt.Errorf("%w: %s:%d: %d columns", ErrData, file, n, len(c))
			}
			switch label {
			case "1", "entailment":
				s.Label = 1
			case "0", "not_entailment":
			default:
				if n == 1 { // header line
					continue
				}
				return nil, nil, fmt.Errorf("%w: %s:%d: label %q", ErrData, file, n, label)
			}
			out[i] = append(out[i], s)
		}
	}
	return out[0], out[1], nil
}
