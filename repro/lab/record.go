package lab

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/randfeat/randfeat/internal/localfile"
)

// Record is the stored result of one item: a line of RESULTS.jsonl. RESULTS.md is generated from the records, and a
// record replaces an item whose data are missing.
type Record struct {
	ID      string   `json:"id"`
	Mode    string   `json:"mode"`
	Seconds float64  `json:"seconds,omitempty"`
	Go      string   `json:"go"`
	Machine string   `json:"machine"`
	Setting []string `json:"setting,omitempty"`
	Checks  []Check  `json:"checks"`
	Tables  []Table  `json:"tables,omitempty"`
	Notes   []string `json:"notes,omitempty"`
}

// ReadRecords reads the lines that WriteRecords wrote.
func ReadRecords(b []byte) (map[string]*Record, error) {
	out := map[string]*Record{}
	for i, line := range bytes.Split(b, []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		var r Record
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		if r.ID == "" || out[r.ID] != nil {
			return nil, fmt.Errorf("line %d: item %q has no name or two lines", i+1, r.ID)
		}
		out[r.ID] = &r
	}
	return out, nil
}

// record returns the page as it is stored; for an item that was not run, its previous record.
func (s *Site) record(p *Page) *Record {
	if p.Skipped != "" {
		return p.Recorded
	}
	return &Record{p.Item.ID, p.Mode, p.Seconds, s.Go, s.Machine, p.Setting, p.Checks, p.Tables, p.Notes}
}

// Keep extends a run to all items. Items that were not run get their previous record, or none.
func (s *Site) Keep(all []*Item, recorded map[string]*Record) *Site {
	out := *s
	out.Pages = nil
	for _, it := range all {
		p := s.find(it.ID)
		if p == nil {
			p = &Page{Item: it, Skipped: "Not in this run.", Recorded: recorded[it.ID]}
		}
		out.Pages = append(out.Pages, p)
	}
	return &out
}

// WriteRecords writes the record of every page as one line, in the order of the pages.
func (s *Site) WriteRecords(path string) error {
	var b bytes.Buffer
	for _, p := range s.Pages {
		if r := s.record(p); r != nil {
			if err := json.NewEncoder(&b).Encode(r); err != nil {
				return err
			}
		}
	}
	return localfile.Write(path, b.Bytes())
}
