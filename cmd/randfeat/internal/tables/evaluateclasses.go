package tables

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/machine"
)

// classified adds the results by class.
func (r *EvaluateResult) classified(classes []string, e *machine.Evaluation) {
	r.Classes, r.ByClass, r.Reliability = classes, e.Classes(), e.Reliability()
	if len(classes) <= maxConfusion {
		r.Confusion = e.Confusion()
	}
	if len(classes) > maxShown {
		r.Confusions = e.LargestConfusions(maxShown)
	}
}

// printClasses prints the results by class.
func (r *EvaluateResult) printClasses(w io.Writer) error {
	if len(r.Classes) == 0 {
		return nil
	}
	for _, part := range []func(io.Writer) error{r.printReliability, r.printByClass, r.printConfusion} {
		if err := part(w); err != nil {
			return err
		}
	}
	return nil
}

func (r *EvaluateResult) printReliability(w io.Writer) error {
	if r.Reliability == nil {
		return nil
	}
	fmt.Fprintln(w, "\nHow often the predicted class is right, by the probability it was given:")
	err := cli.Table(w, func(w io.Writer) {
		fmt.Fprintln(w, "probability\trows\tsaid\tright\t95 % interval")
		for _, b := range r.Reliability.Bins {
			fmt.Fprintf(w, "%g to %g\t%d\t%.3f\t%.3f\t%.3f to %.3f\n", b.From, b.To, b.Right.Rows, b.Said,
				b.Right.Value, b.Right.Low, b.Right.High)
		}
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "Calibration error %.3f; true probabilities would have about %.3f by chance.\n",
		r.Reliability.Error, r.Reliability.Chance)
	return err
}

// printByClass lists the classes, or those with the lowest F1 if there are many.
func (r *EvaluateResult) printByClass(w io.Writer) error {
	list := slices.Clone(r.ByClass)
	head := "Scores of the classes:"
	if len(list) > maxShown {
		list = slices.DeleteFunc(list, func(c machine.ClassScores) bool { return c.Rows == 0 })
		slices.SortStableFunc(list, func(a, b machine.ClassScores) int { return cmp.Compare(a.F1.Value, b.F1.Value) })
		list = list[:min(maxShown, len(list))]
		head = fmt.Sprintf("The %d of %d classes with the lowest F1 (--json has all):", len(list), len(r.ByClass))
	}
	fmt.Fprintf(w, "\n%s\n", head)
	return cli.Table(w, func(w io.Writer) {
		fmt.Fprintln(w, "class\trows\tprecision\trecall\tF1\tROC AUC")
		for _, c := range list {
			fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\n", className(r.Classes[c.Class]), c.Rows, withLimits(c.Precision),
				withLimits(c.Recall), withLimits(c.F1), withLimits(c.AUC))
		}
	})
}

func withLimits(s machine.Score) string {
	if math.IsNaN(s.Value) {
		return "–"
	}
	return fmt.Sprintf("%.3f (%.3f to %.3f)", s.Value, s.Low, s.High)
}

// printConfusion prints the matrix of few classes, or the largest confusions of many.
func (r *EvaluateResult) printConfusion(w io.Writer) error {
	if len(r.Classes) > maxShown {
		if len(r.Confusions) == 0 {
			_, err := fmt.Fprintln(w, "\nNo class was taken for another.")
			return err
		}
		fmt.Fprintln(w, "\nThe largest confusions:")
		return cli.Table(w, func(w io.Writer) {
			fmt.Fprintln(w, "true class\tpredicted as\trows\tof the class")
			for _, c := range r.Confusions {
				fmt.Fprintf(w, "%s\t%s\t%d\t%.1f %%\n", className(r.Classes[c.Truth]),
					className(r.Classes[c.Predicted]), c.Rows, 100*c.Share)
			}
		})
	}
	var names []string
	for _, c := range r.Classes {
		names = append(names, className(c))
	}
	fmt.Fprintln(w, "\nRows by true class (down) and predicted class (across):")
	return cli.Table(w, func(w io.Writer) {
		fmt.Fprintf(w, "\t%s\n", strings.Join(names, "\t"))
		for c, row := range r.Confusion {
			fmt.Fprint(w, names[c])
			for _, n := range row {
				fmt.Fprintf(w, "\t%d", n)
			}
			fmt.Fprintln(w)
		}
	})
}
