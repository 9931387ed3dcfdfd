package machine

import (
	"fmt"
	"time"
)

// History records the origin of a model. Nothing in it changes a prediction.
type History struct {
	// Scores are of rows that were held out at the fit, the main score first; ScoredOn describes these rows.
	Scores   []Score `json:"scores,omitempty"`
	ScoredOn string  `json:"scored_on,omitempty"`
	Metric   *Metric `json:"metric,omitempty"` // learned metric of the kernel, if any
	// Created is the time of the fit, in UTC as in RFC 3339; empty if unknown. The calling program sets it. Package
	// tabular leaves it empty, so that the same table gives the same bytes.
	Created string `json:"created,omitempty"`
	Program string `json:"program,omitempty"` // program that fitted it, with its version
}

func (h *History) validate() error {
	if h == nil || h.Created == "" {
		return nil
	}
	if _, err := time.Parse(time.RFC3339, h.Created); err != nil {
		return fmt.Errorf("created %.40q, want a date and time such as 2026-01-31T12:00:00Z: %w", h.Created, ErrSetup)
	}
	return nil
}
