package tables

import (
	"bytes"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/internal/rng"
)

// The generated table: the hourly electricity use of offices, which depends on hour, temperature and weekday
// smoothly but not linearly, with normal noise. No model can have a smaller RMSE than the noise.
const (
	fitDemoName   = "demo.csv"
	fitDemoTarget = "kwh"
	fitDemoRows   = 3000
	fitDemoNoise  = 4
	fitDemoSeed   = 20220531
)

// setDemo sets the flags that describe the generated table.
func (f *fitFlags) setDemo(cmd *cobra.Command) error {
	if err := cli.Conflict(cmd, "demo", "target", "id", "skip", "numeric", "categorical", "task", "delimiter", "header",
		"no-header", "missing", "format"); err != nil {
		return err
	}
	f.learn.IDs = []string{"meter"}
	if f.model == "density" {
		f.learn.Skip = []string{fitDemoTarget}
		return nil
	}
	if f.model == "logistic" {
		return cli.Misused("--demo has no classes: --model logistic needs a table of your own")
	}
	f.learn.Targets = []string{fitDemoTarget}
	return nil
}

// fitDemoData returns the table as CSV. The seed is fixed, so every run sees the same rows.
func fitDemoData() []byte {
	var b bytes.Buffer
	b.WriteString("meter,site,weekday,hour,temperature,occupancy," + fitDemoTarget + "\n")
	uniform, normal := rng.Stream(fitDemoSeed, 3), make([]float64, 2)
	gauss := rng.Stream(fitDemoSeed, 4)
	share := func() float64 { return float64(uniform.Uint64()>>11) / (1 << 53) }
	for i := range fitDemoRows {
		day := int(7 * share())
		hour := math.Floor(96*share()) / 4
		rng.Normals(normal, gauss)
		temperature := 12 + 9*normal[0] + 5*math.Sin((hour-9)*math.Pi/12)
		at := math.Exp(-math.Pow((hour-13)/4, 2)) // at work
		if day >= 5 {
			at *= 0.15
		}
		occupancy := math.Round(100 * min(at*(0.8+0.3*share()), 1))
		kwh := 20 + 0.35*occupancy + 0.1*math.Pow(temperature-16, 2)*(0.3+at) + fitDemoNoise*normal[1]
		people := fmt.Sprint(occupancy)
		if share() < 0.03 {
			people = "" // the sensor failed
		}
		fmt.Fprintf(&b, "m%04d,north,%s,%g,%.1f,%s,%.1f\n", i, []string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat",
			"Sun"}[day], hour, temperature, people, kwh)
	}
	return b.Bytes()
}
