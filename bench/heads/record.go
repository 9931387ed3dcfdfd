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

// record is what one method did on one test passage with all heads replaced, and, for the encoder, head by head. One
// line of the results file.
type record struct {
	Model   string `json:"model"`
	Method  string `json:"method"`
	Passage int    `json:"passage"`
	// Lengths of prefixes of the passage, and there: the cost of the last tokens in units of one random feature,
	// and the mean of −log p of all tokens but the first.
	Lengths []int     `json:"lengths"`
	Cost    []float64 `json:"cost"`
	Loss    []float64 `json:"loss,omitempty"`
	// Errors |ô−o|/|o| of every head, layer by layer, on the inputs that exact attention sees.
	Errors []float64 `json:"errors,omitempty"`
	// Cosine of the embeddings.
	Cosine  float64 `json:"cosine,omitempty"`
	Seconds float64 `json:"seconds"`
}

func (r *record) key() string {
	return fmt.Sprint(r.Model, " ", r.Method, " ", r.Passage, " ", r.Lengths)
}

// results is a file of records that grows by lines. What is there is not computed again.
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
