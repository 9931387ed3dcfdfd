package tabular

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/machine"
)

// optionsJSON holds the options that change the result.
type optionsJSON struct {
	Learn        data.LearnOptions `json:"columns"`
	Schema       *data.Schema      `json:"schema,omitempty"`
	Marks        data.MarkColumns  `json:"marks"`
	Keep         []string          `json:"keep,omitempty"`
	Kind         machine.Kind      `json:"model,omitempty"`
	Family       json.RawMessage   `json:"family,omitempty"`
	Coupling     json.RawMessage   `json:"coupling,omitempty"`
	Kernel       string            `json:"kernel,omitempty"`
	Bandwidth    float64           `json:"bandwidth,omitempty"`
	Lambda       float64           `json:"lambda,omitempty"`
	Features     int               `json:"features,omitempty"`
	Budget       int               `json:"budget,omitempty"`
	Memory       int64             `json:"memory,omitempty"`
	Map          string            `json:"map,omitempty"`
	Scaling      string            `json:"scaling,omitempty"`
	Code         map[string]string `json:"code,omitempty"`
	IntervalBy   string            `json:"interval_by,omitempty"`
	Horizon      float64           `json:"horizon,omitempty"`
	Loss         string            `json:"loss,omitempty"`
	ClassWeights []float64         `json:"class_weights,omitempty"`
	Seed         uint64            `json:"seed"`
	Folds        int               `json:"folds,omitempty"`
	Sample       int               `json:"sample,omitempty"`
	Float32      bool              `json:"float32,omitempty"`
	Block        int               `json:"block,omitempty"`
	Quick        bool              `json:"quick,omitempty"`
}

// MarshalJSON writes the options that change the model: all but Compare, the checkpoint, Progress and Warn.
func (o Options) MarshalJSON() ([]byte, error) {
	j := optionsJSON{Learn: o.Learn, Schema: o.Schema, Marks: o.Marks, Keep: o.Keep, Kind: o.Kind, Kernel: o.Kernel,
		Bandwidth: o.Bandwidth, Lambda: o.Lambda, Features: o.Features, Budget: o.Budget, Memory: o.Memory, Map: o.Map,
		Scaling: o.Scaling, Code: o.Code, IntervalBy: o.IntervalBy, Horizon: o.Horizon, Loss: o.Loss,
		ClassWeights: o.ClassWeights,
		Seed:         o.Seed, Folds: o.Folds, Sample: o.Sample, Float32: o.Float32,
		Block: o.Block, Quick: o.Quick}
	var err error
	if o.Family != nil {
		if j.Family, err = family.Encode(o.Family); err != nil {
			return nil, err
		}
	}
	if o.Coupling != nil {
		if j.Coupling, err = coupling.Encode(o.Coupling); err != nil {
			return nil, err
		}
	}
	return json.Marshal(j)
}

// UnmarshalJSON reads the form that MarshalJSON writes.
func (o *Options) UnmarshalJSON(b []byte) error {
	var j optionsJSON
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&j); err != nil {
		return err
	}
	*o = Options{Learn: j.Learn, Schema: j.Schema, Marks: j.Marks, Keep: j.Keep, Kind: j.Kind, Kernel: j.Kernel,
		Bandwidth: j.Bandwidth, Lambda: j.Lambda, Features: j.Features, Budget: j.Budget, Memory: j.Memory, Map: j.Map,
		Scaling: j.Scaling, Code: j.Code, IntervalBy: j.IntervalBy, Horizon: j.Horizon, Loss: j.Loss,
		ClassWeights: j.ClassWeights,
		Seed:         j.Seed, Folds: j.Folds, Sample: j.Sample, Float32: j.Float32,
		Block: j.Block, Quick: j.Quick}
	var err error
	if j.Family != nil {
		if o.Family, err = family.Parse(string(j.Family)); err != nil {
			return fmt.Errorf("family: %w", err)
		}
	}
	if j.Coupling != nil {
		if o.Coupling, err = coupling.Parse(string(j.Coupling)); err != nil {
			return fmt.Errorf("coupling: %w", err)
		}
	}
	return nil
}
