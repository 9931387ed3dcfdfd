package tables

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/machine"
	"github.com/randfeat/randfeat/machine/tabular"
)

// Baseline is a score of the simplest prediction, to compare with.
type Baseline struct {
	Name  string  `json:"name"` // name of the score
	Value float64 `json:"value"`
	What  string  `json:"what"` // the simplest prediction: the mean or the most frequent class
}

// baselineOf computes the first score of a report for the most frequent class or the mean of the targets.
func baselineOf(r *tabular.Report, m *machine.Model) *Baseline {
	if len(r.Scores) == 0 {
		return nil
	}
	switch name := r.Scores[0].Name; {
	case r.Task == machine.Classification && name == "accuracy":
		most, total := int64(0), int64(0)
		for _, row := range r.Confusion {
			sum := int64(0)
			for _, n := range row {
				sum += n
			}
			most, total = max(most, sum), total+sum
		}
		if total > 0 {
			return &Baseline{name, float64(most) / float64(total), "most frequent class"}
		}
	case r.Task == machine.Regression && name == "RMSE" && m.Schema != nil:
		sum := 0.0
		for _, t := range m.Schema.Targets {
			if !constant(r.Summary, t.Name) { // the scale of a constant target is 1 by convention
				sum += t.Scale * t.Scale
			}
		}
		return &Baseline{name, math.Sqrt(sum / float64(len(m.Schema.Targets))), "mean"}
	}
	return nil
}

func constant(s *data.Summary, column string) bool {
	if s == nil {
		return false
	}
	return slices.ContainsFunc(s.Columns, func(c data.ColumnSummary) bool { return c.Name == column && c.Min == c.Max })
}

// rareShare is the fraction of its equal share below which a class is called rare: of two classes, 20 % of the
// rows.
const rareShare = 0.4

// imbalance recommends class weights if a class is rare: accuracy then says little, and the class may be
// missed. It is "" otherwise.
func imbalance(r *tabular.Report, m *machine.Model, weighted bool) string {
	if r.Task != machine.Classification || weighted || len(r.Confusion) == 0 || m.Schema == nil {
		return ""
	}
	least, total, at := int64(math.MaxInt64), int64(0), 0
	for c, row := range r.Confusion {
		n := int64(0)
		for _, v := range row {
			n += v
		}
		if total += n; n < least {
			least, at = n, c
		}
	}
	share := float64(least) / float64(total)
	if share*float64(len(r.Confusion)) >= rareShare {
		return ""
	}
	found, right := "", int64(0)
	for c, row := range r.Confusion {
		right += row[c]
	}
	if least > 0 {
		if float64(r.Confusion[at][at])*float64(total) >= float64(right)*float64(least) {
			return "" // the class is found as often as others
		}
		found = fmt.Sprintf(", and %.0f %% of them are found", 100*float64(r.Confusion[at][at])/float64(least))
	}
	return fmt.Sprintf("class %s has %.2g %% of these rows%s. Accuracy says little about it: look at balanced accuracy and "+
		"ROC AUC. If missing it costs more than a false alarm, fit with --class-weight balanced, or with --model "+
		"logistic --class-weight balanced", className(m.Schema.Targets[0].Classes[at]), 100*share, found)
}

// printFit prints the summary.
func printFit(env *cli.Env, r *FitReport, m *machine.Model, f *fitFlags) error {
	w, targets := cli.Printable{Writer: env.Stdout}, targetNames(m)
	if err := printColumns(w, r.Report, m.Schema); err != nil {
		return err
	}
	if r.Resumed > 0 {
		fmt.Fprintf(w, "\n%d rows were taken from the checkpoint.\n", r.Resumed)
	}
	fmt.Fprintf(w, "\n%s\n\n", taskLine(r.Report, targets))
	err := cli.Table(w, func(w io.Writer) {
		fmt.Fprintln(w, "CHOICE\tVALUE\tWHY")
		for _, c := range r.Choices {
			fmt.Fprintf(w, "%s\t%s\t%s\n", c.Name, c.Value, whyOf(c))
		}
	})
	if err != nil {
		return err
	}
	if err := printMetric(w, r.Metric); err != nil {
		return err
	}
	if err := printScores(w, r, targets); err != nil {
		return err
	}
	if err := printCompared(w, r); err != nil {
		return err
	}
	if err := printErrors(w, m); err != nil {
		return err
	}
	if f.demo && r.Task == machine.Regression {
		fmt.Fprintf(w, "The generated data have noise of standard deviation %d: no model can have a smaller RMSE.\n",
			fitDemoNoise)
	}
	for _, n := range r.Notes {
		if !strings.HasPrefix(n, "left out") { // the list of columns already says so
			fmt.Fprintf(w, "Note: %s\n", n)
		}
	}
	var stages []string
	for _, s := range r.Stages {
		stages = append(stages, fmt.Sprintf("%s %s", s.Name, secondsText(s.Seconds)))
	}
	fmt.Fprintf(w, "\nTime %s: %s. Seed %d.\n", secondsText(r.Seconds), strings.Join(stages, ", "), r.Seed)
	printNext(w, r, f)
	return nil
}

func taskLine(r *tabular.Report, targets []string) string {
	of := strings.Join(targets, ", ")
	switch r.Task {
	case machine.Classification:
		return fmt.Sprintf("Classification of %s into %d classes: model %s", of, r.Outputs, r.Kind)
	case machine.Regression:
		return fmt.Sprintf("Regression of %s: model %s", of, r.Kind)
	}
	return "Log density of rows: model " + string(r.Kind)
}

// printColumns prints the role of every column.
func printColumns(w io.Writer, r *tabular.Report, s *data.Schema) error {
	if r.Summary == nil {
		fmt.Fprintf(w, "%s: %d rows, %d encoded columns\n", r.Source, r.Rows, r.Width)
		return nil
	}
	fmt.Fprintf(w, "%s: %s, %s, encoded as %s\n", r.Source, count(r.Rows, "row"),
		count(len(r.Summary.Columns), "column"), count(r.Width, "number"))
	levels := map[string]int{}
	if s != nil {
		for _, f := range s.Fields {
			levels[f.Name] = len(f.Levels)
		}
	}
	by := map[string][]string{}
	for _, c := range r.Summary.Columns {
		by[c.Use] = append(by[c.Use], columnText(c, levels[c.Name]))
	}
	return cli.Table(w, func(w io.Writer) {
		for _, use := range []string{"target", "numeric", "boolean", "time", "text", "categorical", "id", "ignored"} {
			const most = 12
			list := by[use]
			if len(list) == 0 {
				continue
			}
			text := strings.Join(list[:min(most, len(list))], ", ")
			if len(list) > most {
				text += fmt.Sprintf(" and %d more", len(list)-most)
			}
			fmt.Fprintf(w, "  %s\t%s\n", use, text)
		}
	})
}

func columnText(c data.ColumnSummary, levels int) string {
	var more []string
	if c.Why != "" {
		more = append(more, c.Why)
	}
	if c.Use == string(data.Categorical) && levels > 0 {
		more = append(more, fmt.Sprintf("%d levels", levels))
	}
	if c.Missing > 0 && c.Use != "ignored" {
		more = append(more, fmt.Sprintf("%d missing", c.Missing))
	}
	if len(more) == 0 {
		return c.Name
	}
	return fmt.Sprintf("%s (%s)", c.Name, strings.Join(more, ", "))
}

// printScores prints the cross-validation scores beside the baseline.
func printScores(w io.Writer, r *FitReport, targets []string) error {
	if len(r.Scores) == 0 {
		_, err := fmt.Fprint(w, "\nNot scored: without folds nothing is known about rows that were not fitted.\n")
		return err
	}
	fmt.Fprintf(w, "\nOn rows that the model has not seen (%s):\n", r.ScoredOn)
	err := cli.Table(w, func(w io.Writer) {
		fmt.Fprintln(w, "SCORE\tVALUE\t95 % INTERVAL")
		for i, s := range r.Scores {
			fmt.Fprint(w, scoreText(s, targets))
			if i == 0 && r.Baseline != nil {
				fmt.Fprintf(w, "\tbaseline (%s): %.4g", r.Baseline.What, r.Baseline.Value)
			}
			fmt.Fprintln(w)
		}
	})
	return err
}

// printCompared prints the scores of the kernel and of simpler methods, and their differences.
func printCompared(w io.Writer, r *FitReport) error {
	if len(r.Compared) == 0 {
		return nil
	}
	fmt.Fprintf(w, "\nCompared with simpler methods (%s):\n", r.Compared[0].About)
	return cli.Table(w, func(w io.Writer) {
		fmt.Fprintln(w, "METHOD\tSCORE\tVALUE\tKERNEL − METHOD\t95 % INTERVAL\tBETTER")
		shown := map[string]bool{}
		for _, c := range r.Compared {
			for _, d := range c.Kernel {
				shown[d.Score.Name] = true
			}
		}
		for _, c := range r.Compared {
			for _, s := range c.Scores {
				if len(c.Kernel) == 0 && s.Output == 0 && shown[s.Name] {
					fmt.Fprintf(w, "%s\t%s\t%s\t–\t–\t–\n", c.Name, s.Name, digits(s.Value))
				}
			}
			for _, d := range c.Kernel {
				if d.Score.Output > 0 {
					continue
				}
				value := "–"
				for _, s := range c.Scores {
					if s.Name == d.Score.Name && s.Output == 0 {
						value = digits(s.Value)
					}
				}
				better := map[string]string{"first": c.Name, "second": "kernel", "": "cannot be told"}[d.Better]
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s to %s\t%s\n", c.Name, d.Score.Name, value, digits(d.Score.Value),
					digits(d.Score.Low), digits(d.Score.High), better)
			}
		}
	})
}

// printErrors prints the width of prediction intervals.
func printErrors(w io.Writer, m *machine.Model) error {
	kind, err := m.Kind.Info()
	// Gaussian processes have intervals that differ between rows.
	if err != nil || m.Residuals.IsEmpty() || kind.Bayesian {
		return err
	}
	for k, t := range m.Schema.Targets {
		low, high, err := m.Interval(k, 0.9)
		if err != nil {
			return err
		}
		if math.IsInf(low, -1) || math.IsInf(high, 1) { // too few rows
			continue
		}
		if m.IntervalBy != "" {
			fmt.Fprintf(w, "Prediction intervals of %s go by %s (predict --interval 0.9; evaluate says how many targets they hold).\n",
				t.Name, m.IntervalBy)
			continue
		}
		fmt.Fprintf(w, "90 %% of %s lie between the prediction %+.3g and %+.3g (predict --interval 0.9).\n", t.Name, low,
			high)
	}
	return nil
}

// printNext prints the model file and the commands to use it.
func printNext(w io.Writer, r *FitReport, f *fitFlags) {
	if r.File == "" {
		fmt.Fprint(w, "The model was not kept; -o model.rf writes it.\n")
		return
	}
	fmt.Fprintf(w, "Model %s, %s. Next:\n", r.File, bytesText(r.Bytes))
	file, input := shellWord(r.File), "new.csv"
	if f.saveData != "" {
		input = shellWord(f.saveData)
	} else if ext := filepath.Ext(strings.TrimSuffix(r.Source, ".gz")); ext != "" && !f.demo {
		ext, _, _ = strings.Cut(ext, " ") // the source may name several files
		input = "new" + ext
	}
	// With --save-data the suggested table is the training table.
	if r.Task != machine.Unsupervised && f.saveData == "" {
		fmt.Fprintf(w, "  randfeat evaluate %s %s\n", file, input)
	}
	fmt.Fprintf(w, "  randfeat predict %s %s -o predictions.csv\n  randfeat inspect %s\n  randfeat serve %s\n", file,
		input, file, file)
}
