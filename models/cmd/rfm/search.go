package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat/internal/suggest"
	"github.com/randfeat/randfeat/models/search"
)

func searchCommand(e *env) *cobra.Command {
	var f modelFlags
	var index, rerank string
	var n int
	cmd := &cobra.Command{
		Use:   "search MODEL FOLDER QUERY",
		Short: "Find passages of a folder of texts by meaning",
		Long: `search embeds the text files of FOLDER and prints the passages that are nearest to QUERY. Embeddings are kept in an index
file; a later search embeds only files that are new or have changed. Hidden files are not searched.`,
		Example: `  rfm search all-MiniLM-L6-v2 notes "how do I renew the certificate?"`,
		Args:    suggest.Args("a model, a folder and a question", 3, 3),
		RunE: do(func(cmd *cobra.Command, args []string) error {
			if n < 1 {
				return misused("--count is %d, want 1 or more", n)
			}
			folder := args[1]
			if index == "" {
				index = filepath.Join(folder, ".rfm-index")
			}
			m, err := f.encoder(args[0])
			if err != nil {
				return err
			}
			defer m.Close()
			old, err := search.Open(index)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%w: remove the file, or name another by --index", err)
			}
			read := 0
			x, err := search.Update(cmd.Context(), m, folder, old, func(done, of int) { read++ })
			if err != nil {
				return err
			}
			defer old.Close()
			if x != old {
				if err := x.Save(index); err != nil { // a folder that cannot be written can be searched
					e.note("%v: the next search embeds again, set --index", err)
				} else {
					e.note("%d files read, %d passages in %s", read, len(x.Passages), index)
				}
			}
			most := n
			if rerank != "" {
				most = max(n, rerankHits)
			}
			hits, err := x.Find(cmd.Context(), m, folder, args[2], most)
			if err == nil && rerank != "" {
				hits, err = f.rerank(cmd, rerank, args[2], hits)
			}
			if err != nil {
				return err
			}
			hits = hits[:min(n, len(hits))]
			for _, h := range hits {
				if e.json {
					err = e.object(h)
				} else {
					_, err = fmt.Fprintf(e.stdout, "%.3f  %s:%d  %s\n", h.Score, printable(h.File), h.Line,
						printable(snippet(h.Text, 160)))
				}
				if err != nil {
					return err
				}
			}
			return nil
		}),
	}
	f.add(cmd)
	f.addPrompts(cmd)
	cmd.Flags().StringVar(&rerank, "rerank", "", "cross-encoder that orders the 50 nearest passages again, see rfm rank")
	cmd.Flags().StringVar(&index, "index", "", "index `file` (default FOLDER/.rfm-index)")
	cmd.Flags().IntVarP(&n, "count", "n", 5, "number of passages to print")
	return cmd
}

// rerankHits passages are ordered again by --rerank.
const rerankHits = 50

// rerank orders hits by a cross-encoder. Scores become its logits.
func (f *modelFlags) rerank(cmd *cobra.Command, model, query string, hits []search.Hit) ([]search.Hit, error) {
	m, err := (&modelFlags{precision: f.precision}).ranker(model)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	texts := make([]string, len(hits))
	for i, h := range hits {
		texts[i] = h.Text
	}
	scores, _, err := m.Ranker.Score(cmd.Context(), query, texts)
	if err != nil {
		return nil, err
	}
	for i, s := range scores {
		hits[i].Score = s
	}
	slices.SortStableFunc(hits, func(a, b search.Hit) int { return cmp.Compare(b.Score, a.Score) })
	return hits, nil
}

// snippet returns the beginning of a text on one line.
func snippet(s string, most int) string {
	s = strings.Join(strings.Fields(s), " ")
	for i := range s {
		if most--; most < 0 {
			return s[:i] + "…"
		}
	}
	return s
}
