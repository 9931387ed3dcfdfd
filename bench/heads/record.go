package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
)

// record is the result of one method on one test passage, and one line of the results file. It covers the run with all
// heads replaced and, for the encoder, every head on its own.
type record struct {
	Model   string `json:"model"`
	Method  string `json:"method"`
	Passage int    `json:"passage"`
	// Lengths are the lengths of prefixes of the passage. Cost and Loss have one value per prefix: the cost of a token
	// near its end in units of one random feature, and the mean of −log p over all of its tokens but the first.
	Lengths []int     `json:"lengths"`
	Cost    []float64 `json:"cost"`
	Loss    []float64 `json:"loss,omitempty"`
	// Errors are |ô−o|/|o| of every head, layer by layer, on the inputs that the layer gets with exact attention.
	Errors []float64 `json:"errors,omitempty"`
	// Cosine is that of the embeddings with exact attention and with all heads replaced.
	Cosine  float64 `json:"cosine,omitempty"`
	Seconds float64 `json:"seconds"`
}

// key identifies the measurement. Model, method, passage and lengths are in it; the results are not.
func (r *record) key() string {
	return fmt.Sprint(r.Model, " ", r.Method, " ", r.Passage, " ", r.Lengths)
}

// results is the results file and its records by key. add appends a line, so an interrupted run keeps what it has
// finished. If a key occurs twice, the last line counts. Many goroutines may call has and add at the same time.
type results struct {
	path string
	mu   sync.Mutex
	all  map[string]record
}

func openResults(path string) (*results, error) {
	s := &results{path: path, all: map[string]record{}}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		var r record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", path, n, err)
		}
		s.all[r.key()] = r
	}
	return s, lines.Err()
}

func (s *results) has(r record) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.all[r.key()]
	return ok
}

func (s *results) add(r record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(s.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err = f.Write(append(line, '\n')); err != nil {
		f.Close()
		return err
	}
	s.all[r.key()] = r
	return f.Close()
}
