package machine

import (
	"math"
	"strconv"
	"testing"
)

// Model files that were fitted on amd64 with AVX-512 predict the same on every processor, up to rounding: rows with a
// missing number and with a level that no training row had among them.
func TestModelsOfAMD64(t *testing.T) {
	const text = "x,y,colour\n0.5,1.25,green\n-1.5,,red\n2,-0.75,violet\n"
	for file, want := range map[string]struct {
		options TableOptions
		columns [][]float64
	}{
		// kernel ridge regression: prediction, lower, upper
		"testdata/numbers-amd64.rf": {TableOptions{Interval: 0.9}, [][]float64{
			{0.7312444879093507, 0.5147595178589834, -0.8935013203003188},
			{-0.7883657838113043, -1.0048507538616716, -2.413111592020974},
			{2.1844384835947612, 1.967953513544394, 0.5596926753850917}}},
		// logistic regression on random features: probabilities
		"testdata/classes-amd64.rf": {TableOptions{Probabilities: true}, [][]float64{
			{0.24590847832563248, 6.659461369735497e-07, 0.08934429454801092},
			{0.19656752903700878, 0.4007306139931138, 0.025977203877144615},
			{0.5575239926373589, 0.5992687200607493, 0.8846785015748445}}},
	} {
		m, err := Load(file)
		if err != nil {
			t.Fatal(err)
		}
		p, err := NewTablePredictor(m, want.options)
		if err != nil {
			t.Fatal(err)
		}
		names, rows := predicted(t, p, openText(t, text), 2)
		first := len(names) - len(want.columns) // after the predicted class
		for j, column := range want.columns {
			for i, v := range column {
				if got, err := strconv.ParseFloat(rows[i][first+j], 64); err != nil || !(math.Abs(got-v) <= 1e-9) {
					t.Errorf("%s, row %d: %s is %s, want %v", file, i, names[first+j], rows[i][first+j], v)
				}
			}
		}
	}
}
