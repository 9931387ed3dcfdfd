package tabular

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/machine"
)

// Every field of the options that is set must come back: one that is forgotten would be lost on the way to the workers.
func TestOptionsJSON(t *testing.T) {
	var o Options
	v := reflect.ValueOf(&o).Elem()
	local := map[string]bool{"Checkpoint": true, "CheckpointEvery": true, "Progress": true, "Warn": true,
		"Compare": true, "Workers": true} // none of these changes the model
	for i := range v.NumField() {
		f := v.Field(i)
		if local[v.Type().Field(i).Name] {
			continue
		}
		switch f.Kind() {
		case reflect.String:
			f.SetString("text")
		case reflect.Int, reflect.Int64:
			f.SetInt(int64(3 + i))
		case reflect.Uint64:
			f.SetUint(1<<63 + 3)
		case reflect.Float64:
			f.SetFloat(0.1 + float64(i))
		case reflect.Bool:
			f.SetBool(true)
		}
	}
	o.Learn = data.LearnOptions{Targets: []string{"y"}, Task: data.Regression, MaxLevels: 3}
	o.Schema = &data.Schema{Fields: []data.Field{{Name: "x", Kind: data.Numeric, Scale: 1}}}
	o.Marks, o.Keep = data.MarkColumns{Weight: "w"}, []string{"w"}
	o.Family, o.Coupling, o.Kind = family.OPRF{A: -0.12}, coupling.Simplex{}, machine.KindSmoother
	o.ClassWeights, o.Code = []float64{1, 0.1}, map[string]string{"x": codeAll}
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; v.Field(i).IsZero() && !local[name] {
			t.Errorf("%s is not set by this test", name)
		}
	}
	b, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	var got Options
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, o) {
		t.Errorf("%s became %+v, want %+v", b, got, o)
	}
}
