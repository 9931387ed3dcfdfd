package main

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat/internal/localfile"
	"github.com/randfeat/randfeat/internal/suggest"
	"github.com/randfeat/randfeat/models"
)

type embedFlags struct {
	modelFlags
	out, from, to, column, prefix string
	truncate                      bool
	purpose                       string
	dimensions                    int
}

func embedCommand(e *env) *cobra.Command {
	var f embedFlags
	cmd := &cobra.Command{
		Use:   "embed MODEL [INPUT]",
		Short: "Embed texts",
		Long: `embed reads texts and writes their embeddings, in the order of the input. INPUT is a file, or - (the default) for stdin:

  .txt             one text per line
  .ndjson, .jsonl  one JSON object, or one JSON string, per line; --column names the field
  .csv             a header, then rows; --column names the column

Output is NDJSON with the text and its embedding, CSV with a column per number, or an npy file of float32 numbers.
A text that is longer than the model's passages is cut into several, and its embedding is their mean, weighted by tokens;
--truncate keeps only the first, as sentence-transformers does.`,
		Example: `  rfm embed all-MiniLM-L6-v2 reviews.csv --column text -o reviews.npy
  echo "a text" | rfm embed all-MiniLM-L6-v2`,
		Args: suggest.Args("a model, and one input or stdin", 1, 2),
		RunE: do(func(cmd *cobra.Command, args []string) error {
			input := "-"
			if len(args) == 2 {
				input = args[1]
			}
			return f.run(cmd, e, args[0], input)
		}),
	}
	f.add(cmd)
	fl := cmd.Flags()
	fl.StringVarP(&f.out, "output", "o", "-", "`file` to write; - for stdout")
	fl.StringVar(&f.from, "from", "", "format of the input: txt, ndjson or csv (default: by its name; stdin: txt)")
	fl.StringVar(&f.to, "to", "", "format of the output: ndjson, csv or npy (default: by its name; stdout: ndjson)")
	fl.StringVar(&f.column, "column", "text", "field or column with the text")
	fl.StringVar(&f.prefix, "prefix", "", "`text` to put before every text, such as \"query: \" for E5")
	f.addPrompts(cmd)
	fl.StringVar(&f.purpose, "as", "", "`purpose` of the texts: query or document; puts the model's prompt for it before them")
	fl.IntVar(&f.dimensions, "dimensions", 0, "keep only the first numbers of embeddings, for models trained for it (Matryoshka)")
	fl.BoolVar(&f.truncate, "truncate", false, "embed only the first passage of a long text")
	return cmd
}

// format returns the format of a file: the flag's value or, if it is empty, the ending of the name.
func format(flag, value, path, otherwise string, known ...string) (string, error) {
	if value == "" {
		value = strings.TrimPrefix(strings.ToLower(filepath.Ext(path)), ".")
		if path == "-" {
			value = otherwise
		}
		if value == "jsonl" {
			value = "ndjson"
		}
		if !slices.Contains(known, value) {
			return "", misused("%s: set --%s to %s", path, flag, strings.Join(known, " or "))
		}
	}
	if !slices.Contains(known, value) {
		return "", misused("--%s %q: want %s", flag, value, strings.Join(known, " or "))
	}
	return value, nil
}

// embedBatch is the number of texts that are embedded at a time.
const embedBatch = 64

func (f *embedFlags) run(cmd *cobra.Command, e *env, model, input string) error {
	from, err := format("from", f.from, input, "txt", "txt", "ndjson", "csv")
	if err != nil {
		return err
	}
	to, err := format("to", f.to, f.out, "ndjson", "ndjson", "csv", "npy")
	if err != nil {
		return err
	}
	in := e.stdin
	if input != "-" {
		file, err := os.Open(input)
		if err != nil {
			return err
		}
		defer file.Close()
		in = file
	}
	m, err := f.encoder(model)
	if err != nil {
		return err
	}
	defer m.Close()
	if f.dimensions < 0 || f.dimensions > m.Encoder.Dim() {
		return misused("--dimensions is %d, the model has %d", f.dimensions, m.Encoder.Dim())
	}
	if f.dimensions == 0 {
		f.dimensions = m.Encoder.Dim()
	}
	m.Encoder.Truncate = f.truncate
	if f.purpose != "" {
		m.Encoder = m.Encoder.For(f.purpose)
	}
	out, commit, abort, err := create(e, f.out)
	if err != nil {
		return err
	}
	defer abort()
	w, err := newEmbeddingWriter(to, out, f.dimensions)
	if err != nil {
		return err
	}
	defer w.abort()
	var batch []string
	long, all := 0, 0
	flush := func() error {
		texts := make([]string, len(batch))
		for i, t := range batch {
			texts[i] = f.prefix + t
		}
		x, n, err := m.Encoder.EmbedCount(cmd.Context(), texts)
		if err != nil {
			return err
		}
		long, all = long+n.Long, all+len(texts)
		if f.dimensions < x.Cols {
			x = models.Shorten(x, f.dimensions)
		}
		for i, t := range batch {
			if err := w.write(t, x.Row(i)); err != nil {
				return err
			}
		}
		batch = batch[:0]
		return nil
	}
	err = eachText(in, from, f.column, func(text string) error {
		if batch = append(batch, text); len(batch) == embedBatch {
			return flush()
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", input, err)
	}
	if err := flush(); err != nil {
		return err
	}
	if long > 0 {
		how := "their embeddings are means of several passages"
		if f.truncate {
			how = "only the first passage was embedded"
		}
		e.note("%d of %d texts are longer than a passage of %d tokens: %s", long, all, m.Encoder.Passage(), how)
	}
	if err := w.close(); err != nil {
		return err
	}
	return commit()
}

// create opens an output file that appears only on commit, complete. Standard output is written directly.
func create(e *env, path string) (w io.Writer, commit func() error, abort func(), err error) {
	if path == "-" {
		if e.lost {
			return nil, nil, nil, errors.New("stdout is closed, or is /dev/null opened for reading and writing: the " +
				"embeddings would be lost; name a file with -o")
		}
		return e.stdout, func() error { return nil }, func() {}, nil
	}
	f, err := localfile.Create(path)
	if err != nil {
		return nil, nil, nil, err
	}
	return f, f.Commit, f.Abort, nil
}

// maxLine is the longest line of an input, in bytes.
const maxLine = 1 << 26

// eachText calls f with every text of an input.
func eachText(r io.Reader, format, column string, f func(text string) error) error {
	if format == "csv" {
		return eachCell(r, column, f)
	}
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxLine)
	line := 0
	for s.Scan() {
		line++
		text := s.Text()
		if format == "ndjson" {
			if strings.TrimSpace(text) == "" {
				continue
			}
			var err error
			if text, err = field(s.Bytes(), column); err != nil {
				return fmt.Errorf("line %d: %w", line, err)
			}
		}
		if err := f(text); err != nil {
			return err
		}
	}
	if errors.Is(s.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("line %d has more than %d bytes", line+1, maxLine)
	}
	return s.Err()
}

// field returns the text of a JSON string, or of a field of a JSON object.
func field(b []byte, name string) (string, error) {
	var text string
	if json.Unmarshal(b, &text) == nil {
		return text, nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(b, &object); err != nil {
		return "", fmt.Errorf("neither a JSON object nor a string: %w", err)
	}
	v, ok := object[name]
	if !ok {
		return "", fmt.Errorf("no field %q: set --column", name)
	}
	if err := json.Unmarshal(v, &text); err != nil {
		return "", fmt.Errorf("field %q is not a string", name)
	}
	return text, nil
}

func eachCell(r io.Reader, column string, f func(text string) error) error {
	c := csv.NewReader(r)
	c.ReuseRecord = true
	header, err := c.Read()
	if err != nil {
		return fmt.Errorf("no header: %w", err)
	}
	at := slices.Index(header, column)
	if at < 0 {
		return fmt.Errorf("no column %q in the header (%s): set --column", column, strings.Join(header, ", "))
	}
	for {
		row, err := c.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := f(strings.Clone(row[at])); err != nil {
			return err
		}
	}
}

// embeddingWriter writes embeddings one by one in some format. Call close at the end, and abort in any case.
type embeddingWriter struct {
	write func(text string, x []float32) error
	close func() error
	abort func()
}

// Embedding is a line of NDJSON output.
type Embedding struct {
	Text      string    `json:"text"`
	Embedding []float32 `json:"embedding"`
}

func newEmbeddingWriter(format string, w io.Writer, dim int) (*embeddingWriter, error) {
	b := bufio.NewWriter(w)
	e := &embeddingWriter{close: b.Flush, abort: func() {}}
	switch format {
	case "ndjson":
		enc := json.NewEncoder(b)
		enc.SetEscapeHTML(false)
		e.write = func(text string, x []float32) error { return enc.Encode(Embedding{text, x}) }
	case "csv":
		for j := range dim {
			if j > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(b, "e%d", j)
		}
		b.WriteByte('\n')
		e.write = func(_ string, x []float32) error {
			for j, v := range x {
				if j > 0 {
					b.WriteByte(',')
				}
				b.Write(strconv.AppendFloat(b.AvailableBuffer(), float64(v), 'g', -1, 32))
			}
			return b.WriteByte('\n')
		}
	case "npy":
		return newNpyWriter(b, dim)
	}
	return e, nil
}

// newNpyWriter writes an npy file. Its header has the number of rows, so the rows wait in a temporary file until the
// end.
func newNpyWriter(b *bufio.Writer, dim int) (*embeddingWriter, error) {
	spool, err := os.CreateTemp("", "rfm-*.npy")
	if err != nil {
		return nil, err
	}
	rows, body := 0, bufio.NewWriter(spool)
	var buf []byte
	return &embeddingWriter{
		write: func(_ string, x []float32) error {
			rows++
			buf = appendFloats(buf[:0], x)
			_, err := body.Write(buf)
			return err
		},
		close: func() error {
			if err := body.Flush(); err != nil {
				return err
			}
			if _, err := spool.Seek(0, io.SeekStart); err != nil {
				return err
			}
			if _, err := b.Write(npyHeader(rows, dim)); err != nil {
				return err
			}
			if _, err := io.Copy(b, spool); err != nil {
				return err
			}
			return b.Flush()
		},
		abort: func() { spool.Close(); os.Remove(spool.Name()) },
	}, nil
}
