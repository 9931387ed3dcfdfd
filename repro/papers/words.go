package papers

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/npy"
	"github.com/randfeat/randfeat/repro/lab"
	"github.com/randfeat/randfeat/repro/lstm"
	"github.com/randfeat/randfeat/sampling"
)

// wordText is a text of the paper's language models.
type wordText struct {
	name          string
	set           string // prefix of the files that training lab words writes
	learn, held   string // files
	gain, unit    float64
	paperModel    string
	textDifferent string
}

var ptb = wordText{name: "the Penn Treebank", set: "ptb", learn: "ptb/ptb.train.txt.gz", held: "ptb/ptb.valid.txt.gz",
	paperModel: "2 layers of width 200"}

var wikiText2 = wordText{name: "WikiText-2", set: "wikitext2", learn: "wikitext2/wiki.valid.tokens.gz",
	held: "wikitext2/wiki.test.tokens.gz", gain: 6, unit: 2, paperModel: "2 layers of width 650",
	textDifferent: " The paper's model learned from the training part; here the validation part trains and the test part gives " +
		"the places."}

// readWords reads about limit tokens: it stops at the first line end after them.
func readWords(l *lab.Lab, file string, limit int) (words []string, err error) {
	f, err := os.Open(l.Path(file))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	scan := bufio.NewScanner(z)
	scan.Buffer(nil, 1<<20)
	for scan.Scan() && len(words) < limit {
		words = append(append(words, strings.Fields(scan.Text())...), "<eos>")
	}
	return words, scan.Err()
}

// numbered is a text as word numbers; the most frequent word is 0. Words outside of the vocabulary become <unk> if
// the text has it, else the last number.
type numbered struct {
	learn, held []int32
	counts      []float64
}

func readNumbered(l *lab.Lab, text wordText, vocab, limit int) (*numbered, error) {
	learn, err := readWords(l, text.learn, limit)
	if err != nil {
		return nil, err
	}
	held, err := readWords(l, text.held, 50000)
	if err != nil {
		return nil, err
	}
	count := map[string]int{}
	for _, w := range learn {
		count[w]++
	}
	var order []string
	for w := range count {
		order = append(order, w)
	}
	slices.SortFunc(order, func(a, b string) int {
		if c := count[b] - count[a]; c != 0 {
			return c
		}
		return strings.Compare(a, b)
	})
	order = order[:min(vocab, len(order))]
	id := map[string]int32{}
	for i, w := range order {
		id[w] = int32(i)
	}
	rest, ok := id["<unk>"]
	if !ok {
		rest = int32(len(order) - 1)
	}
	n := &numbered{counts: make([]float64, len(order))}
	number := func(words []string) []int32 {
		out := make([]int32, len(words))
		for i, w := range words {
			if j, ok := id[w]; ok {
				out[i] = j
			} else {
				out[i] = rest
			}
		}
		return out
	}
	n.learn, n.held = number(learn), number(held)
	for _, w := range n.learn {
		n.counts[w]++
	}
	return n, nil
}

// wordModel has the keys and queries of a trained model in float64.
type wordModel struct {
	queries, keys dense.Matrix[float64]
	counts        []float64
	perplexity    float64 // on held-out text; 0: unknown
	what          string  // describes the model
}

var trained struct {
	mu     sync.Mutex
	models map[string]*wordModel
}

// wordsOf returns the model of a text: the one in $RANDFEAT_DATA/lstm if training lab words has written it, else one
// that is trained here, once per process. Queries are outputs at held-out places.
func wordsOf(l *lab.Lab, text wordText) (*wordModel, error) {
	trained.mu.Lock()
	defer trained.mu.Unlock()
	key := text.set + l.Mode()
	if m := trained.models[key]; m != nil {
		return m, nil
	}
	m, err := readWordModel(l, text)
	if err == nil && m == nil {
		m, err = trainWords(l, text)
	}
	if err != nil {
		return nil, err
	}
	if trained.models == nil {
		trained.models = map[string]*wordModel{}
	}
	trained.models[key] = m
	return m, nil
}

// modelOf identifies the model of wordsOf, for the keys of cells.
func modelOf(l *lab.Lab, text wordText) string {
	if _, err := os.Stat(wordFile(l, text, "keys")); err == nil {
		return text.set + " of files"
	}
	return text.set
}

func wordFile(l *lab.Lab, text wordText, what string) string {
	return l.Path(filepath.Join("lstm", text.set+"-"+what+".npy"))
}

// readWordModel returns nil if there are no files.
func readWordModel(l *lab.Lab, text wordText) (*wordModel, error) {
	file := func(what string) string { return wordFile(l, text, what) }
	if _, err := os.Stat(file("keys")); err != nil {
		return nil, nil
	}
	var all [3]dense.Matrix[float64]
	for i, what := range []string{"keys", "queries", "counts"} {
		a, err := npy.ReadFile(file(what))
		if err != nil {
			return nil, err
		}
		all[i] = a.Float64()
	}
	return &wordModel{keys: all[0], queries: all[1], counts: all[2].Data,
		what: fmt.Sprintf("an LSTM of width %d, read from lstm/%s-keys.npy and -queries.npy of the data folder",
			all[0].Cols, text.set)}, nil
}

// trainWords trains an LSTM of the paper's width on the CPU: in quick mode on a part of the text, in full mode for
// several epochs.
func trainWords(l *lab.Lab, text wordText) (*wordModel, error) {
	return trainWordsOn(l, text, lab.Pick(l, 30_000, 1<<30), lab.Pick(l, 1, 8))
}

func trainWordsOn(l *lab.Lab, text wordText, words, epochs int) (*wordModel, error) {
	n, err := readNumbered(l, text, 1<<30, words)
	if err != nil {
		return nil, err
	}
	c := lstm.Config{Vocab: len(n.counts), Width: 200, Layers: 2, Batch: 32, Length: 20, Rate: 0.03, Clip: 5,
		Gain: text.gain, Unit: text.unit, Seed: lab.Seed}
	m, err := lstm.New[float32](c)
	if err != nil {
		return nil, err
	}
	f, err := sampling.NewFixed(sampling.Unigram(n.counts, 0.75))
	if err != nil {
		return nil, err
	}
	for e := range epochs {
		stop := func(int, float64) error { return l.Context.Err() }
		if err := m.Epoch(n.learn, e, lstm.Shared[float32](f, 200), stop); err != nil {
			return nil, err
		}
	}
	q, _ := m.Queries(n.held, 2000)
	times := "once"
	if epochs > 1 {
		times = fmt.Sprintf("%d times", epochs)
	}
	return &wordModel{queries: dense.Convert[float64](q), keys: dense.Convert[float64](m.Table), counts: n.counts,
		perplexity: m.Perplexity(n.held, 2000),
		what: fmt.Sprintf("an LSTM of 2 layers and width %d that read %d words %s, trained here by a softmax over 200 "+
			"sampled words", c.Width, len(n.learn), times)}, nil
}

// SaveWords trains the LSTM of a text (ptb, wikitext2) and writes its keys, queries and counts as DIR/SET-keys.npy
// and so on. Items look for these files in the folder lstm of the data folder before they train a model.
func SaveWords(l *lab.Lab, set, dir string, words, epochs int) (what string, err error) {
	for _, text := range []wordText{ptb, wikiText2} {
		if text.set != set {
			continue
		}
		m, err := trainWordsOn(l, text, words, epochs)
		if err != nil {
			return "", err
		}
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return "", err
		}
		counts := dense.Matrix[float64]{Rows: len(m.counts), Cols: 1, Stride: 1, Data: m.counts}
		for name, x := range map[string]dense.Matrix[float64]{"keys": m.keys, "queries": m.queries, "counts": counts} {
			file := filepath.Join(dir, set+"-"+name+".npy")
			if err := npy.WriteFile(file, dense.Convert[float32](x)); err != nil {
				return "", err
			}
		}
		return fmt.Sprintf("%d classes of %s%s", m.keys.Rows, m.what, m.told()), nil
	}
	return "", fmt.Errorf("no text %q: take %s or %s", set, ptb.set, wikiText2.set)
}
