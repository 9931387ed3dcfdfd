package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat/internal/suggest"
	"github.com/randfeat/randfeat/models"
)

// Ranked is a line that rank prints with --json.
type Ranked struct {
	Score float64 `json:"score"` // logit: larger is better
	Line  int     `json:"line"`  // of the input, from 1; empty lines and records without text count
	Text  string  `json:"text"`
}

func rankCommand(e *env) *cobra.Command {
	var f modelFlags
	var from, column string
	var n int
	cmd := &cobra.Command{
		Use:   "rank MODEL QUERY [INPUT]",
		Short: "Order texts by how well they answer a query",
		Long: `rank reads texts from INPUT (- for stdin; formats as in rfm embed) and prints them, best first. MODEL is a cross-encoder: it
reads the query and a text together, which is slower than comparing embeddings, and better.`,
		Example: `  rfm rank ms-marco-MiniLM-L6-v2 "how do I renew the certificate?" passages.txt
  rfm search all-MiniLM-L6-v2 notes "how do I renew the certificate?" --rerank ms-marco-MiniLM-L6-v2`,
		Args: suggest.Args("a model, a query, and one input or stdin", 2, 3),
		RunE: do(func(cmd *cobra.Command, args []string) error {
			if n < 0 {
				return misused("--count is %d, want 0 or more", n)
			}
			input, in := "-", e.stdin
			if len(args) == 3 {
				input = args[2]
			}
			kind, err := format("from", from, input, "txt", "txt", "ndjson", "csv")
			if err != nil {
				return err
			}
			if input != "-" {
				file, err := os.Open(input)
				if err != nil {
					return err
				}
				defer file.Close()
				in = file
			}
			m, err := f.ranker(args[0])
			if err != nil {
				return err
			}
			defer m.Close()
			var list []Ranked
			var texts []string
			if err := eachText(in, kind, column, func(text string) error {
				list, texts = append(list, Ranked{Line: len(list) + 1, Text: text}), append(texts, text)
				return nil
			}); err != nil {
				return fmt.Errorf("%s: %w", input, err)
			}
			scores, count, err := m.Ranker.Score(cmd.Context(), args[1], texts)
			if err != nil {
				return err
			}
			if count.Long > 0 {
				e.note("%d of %d texts are longer than the model reads and were cut", count.Long, len(texts))
			}
			for i, s := range scores {
				list[i].Score = s
			}
			slices.SortStableFunc(list, func(a, b Ranked) int { return cmp.Compare(b.Score, a.Score) })
			if n > 0 {
				list = list[:min(n, len(list))]
			}
			for _, r := range list {
				if e.json {
					err = e.object(r)
				} else {
					_, err = fmt.Fprintf(e.stdout, "%8.3f  %d  %s\n", r.Score, r.Line, printable(snippet(r.Text, 160)))
				}
				if err != nil {
					return err
				}
			}
			return nil
		}),
	}
	f.add(cmd)
	cmd.Flags().StringVar(&from, "from", "", "format of the input: txt, ndjson or csv (default: by its name; stdin: txt)")
	cmd.Flags().StringVar(&column, "column", "text", "field or column with the text")
	cmd.Flags().IntVarP(&n, "count", "n", 0, "number of texts to print; 0: all")
	return cmd
}

// ranker opens a cross-encoder.
func (f *modelFlags) ranker(path string) (*models.Model, error) {
	m, err := f.open(path)
	if err == nil && m.Ranker == nil {
		m.Close()
		err = fmt.Errorf("%s has no classifier, and this command needs a cross-encoder, such as ms-marco-MiniLM-L6-v2", path)
	}
	return m, err
}
