package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/internal/calc"
	"github.com/randfeat/randfeat/internal/suggest"
)

// EvalResult is the answer of eval to one case: a value or an error.
type EvalResult struct {
	ID    string          `json:"id"`              // id of the case
	Value json.RawMessage `json:"value,omitempty"` // infinities are "inf" and "-inf", undefined values null
	Error string          `json:"error,omitempty"` // why the case has no value
}

// CheckResult is the verdict of eval --check --json on one case.
type CheckResult struct {
	ID     string          `json:"id"`              // id of the case
	Name   string          `json:"name"`            // name of the formula
	Status string          `json:"status"`          // passed or failed
	Value  json.RawMessage `json:"value,omitempty"` // computed value
	Error  string          `json:"error,omitempty"` // why it failed
}

// CheckSummary counts the verdicts of one formula; the last one, named "total", counts all.
type CheckSummary struct {
	Summary string `json:"summary"` // the name
	Passed  int    `json:"passed"`  // number of cases that passed
	Failed  int    `json:"failed"`  // number of cases that failed
}

const (
	statusPassed = "passed"
	statusFailed = "failed"
)

func EvalCommand(env *cli.Env) *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use:   "eval [cases.json | -]",
		Short: "Evaluate closed forms, given as JSON",
		Long: `Evaluate a batch of formulas: closed forms, optimised parameters, feature maps, coupling steps.
The cases come from a file or, with - or no argument, from stdin, in any of three forms:

  {"schema": 1, "cases": [CASE, ...]}      the form of testdata/closed_forms.json
  [CASE, ...]                              a list
  CASE CASE ...                            one after the other; each is answered before the next is read

  CASE = {"id": "a", "formula": "logrv.trig", "inputs": {"z2": 0.5}, "expected": -2.0, "rtol": 1e-9, "atol": 0}

Only formula and inputs are required. "randfeat theory list" shows all formulas with their inputs.
The answer to each case is one line, {"id": ..., "value": ...} or {"id": ..., "error": ...}. A case that cannot be
evaluated does not stop the others; the exit status is 0 as long as every case was answered.

With --check each value is compared with "expected": |got - want| <= rtol*|want| + atol for every number. The misses
and the counts per formula are printed, and the exit status is 1 if any case failed.`,
		Example: `  echo '{"formula": "oprf.rho", "inputs": {"d": 64, "v2": 16}}' | randfeat eval
  randfeat eval --check testdata/closed_forms.json`,
		Args: suggest.Args("one file of cases, or none", 0, 1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"json", "ndjson", "jsonl"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: cli.Do(func(cmd *cobra.Command, args []string) error {
			in, name, err := openCases(env, args)
			if err != nil {
				return err
			}
			defer in.Close()
			cases := calc.NewReader(in)
			if check {
				err = runCheck(env, cmd, cases)
			} else {
				err = runEval(env, cmd, cases)
			}
			if err != nil && !errors.Is(err, cli.ErrMiss) {
				return fmt.Errorf("%s: %w", name, err)
			}
			return err
		}),
	}
	cmd.Flags().BoolVar(&check, "check", false, "compare with the expected values and exit 1 on a miss")
	return cmd
}

// openCases opens the file of an optional argument; none or - is stdin.
func openCases(env *cli.Env, args []string) (io.ReadCloser, string, error) {
	if len(args) == 0 || args[0] == "-" {
		return io.NopCloser(env.Stdin), "stdin", nil
	}
	f, err := env.OpenPipe(args[0])
	if err != nil {
		return nil, "", err
	}
	if info, err := os.Stat(args[0]); err == nil && info.IsDir() {
		f.Close()
		return nil, "", fmt.Errorf("%s is a directory, want a JSON file", args[0])
	}
	return f, args[0], nil
}

// runEval answers case by case. A case that cannot be evaluated gets an error object; only broken JSON ends the
// run.
func runEval(env *cli.Env, cmd *cobra.Command, cases *calc.Reader) error {
	formulas := calc.NewTable()
	total, failed := 0, 0
	for {
		if err := cmd.Context().Err(); err != nil {
			return err
		}
		c, err := cases.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		total++
		result := EvalResult{ID: c.ID}
		var bad *calc.CaseError
		switch {
		case errors.As(err, &bad):
			result.ID, result.Error = bad.ID, bad.Err.Error()
		case err != nil:
			return err
		default:
			value, err := evaluate(formulas, c)
			if err != nil {
				result.Error = err.Error()
			} else {
				result.Value = calc.Encode(value)
			}
		}
		if result.Error != "" {
			failed++
		}
		if err := env.Object(result); err != nil {
			return err
		}
		// A caller that asks case by case through a pipe waits for this answer.
		if err := env.Stdout.Flush(); err != nil {
			return err
		}
	}
	if failed > 0 {
		env.Note("%d of %d cases could not be evaluated", failed, total)
	}
	return nil
}

func evaluate(formulas calc.Table, c calc.Case) (any, error) {
	e, err := formulas.Find(c.Name)
	if err != nil {
		return nil, err
	}
	return e.Eval(c.Inputs)
}

// runCheck compares every case and prints misses and counts. It returns ErrMiss if any case failed.
func runCheck(env *cli.Env, cmd *cobra.Command, cases *calc.Reader) error {
	formulas := calc.NewTable()
	counts := map[string]*CheckSummary{}
	total := CheckSummary{Summary: "total"}
	for {
		if err := cmd.Context().Err(); err != nil {
			return err
		}
		c, err := cases.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		var bad *calc.CaseError
		if err != nil && !errors.As(err, &bad) {
			return err
		}
		result := CheckResult{ID: c.ID, Name: c.Name}
		if bad != nil {
			result.ID, result.Name, result.Status, result.Error = bad.ID, "(malformed)", statusFailed, bad.Err.Error()
		} else {
			checkCase(formulas, c, &result)
		}
		if counts[result.Name] == nil {
			counts[result.Name] = &CheckSummary{Summary: result.Name}
		}
		counts[result.Name].count(result.Status)
		total.count(result.Status)
		if err := printVerdict(env, result); err != nil {
			return err
		}
	}
	if total == (CheckSummary{Summary: "total"}) {
		return errors.New("there are no cases to check")
	}
	if err := printCounts(env, counts, total); err != nil {
		return err
	}
	if total.Failed > 0 {
		return cli.ErrMiss
	}
	return nil
}

func checkCase(formulas calc.Table, c calc.Case, result *CheckResult) {
	value, err := evaluate(formulas, c)
	switch {
	case err == nil && c.Expected == nil:
		err = errors.New("the case has no expected value")
	case err == nil:
		result.Value = calc.Encode(value)
		err = calc.Compare(value, c.Expected, c.RTol, c.ATol)
	}
	result.Status = statusPassed
	if err != nil {
		result.Status, result.Error = statusFailed, err.Error()
	}
}

func (s *CheckSummary) count(status string) {
	if status == statusPassed {
		s.Passed++
	} else {
		s.Failed++
	}
}

// printVerdict prints every case as JSON, or only the misses as text.
func printVerdict(env *cli.Env, r CheckResult) error {
	if env.JSON {
		return env.Object(r)
	}
	if r.Status == statusFailed {
		_, err := fmt.Fprintf(env.Stdout, "MISS %s: %s\n", r.ID, r.Error)
		return err
	}
	return nil
}

func printCounts(env *cli.Env, counts map[string]*CheckSummary, total CheckSummary) error {
	names := make([]string, 0, len(counts))
	for name := range counts {
		names = append(names, name)
	}
	sort.Strings(names)
	if env.JSON {
		for _, name := range names {
			if err := env.Object(counts[name]); err != nil {
				return err
			}
		}
		return env.Object(total)
	}
	return cli.Table(env.Stdout, func(w io.Writer) {
		fmt.Fprintln(w, "FORMULA\tPASSED\tFAILED")
		for _, name := range names {
			s := counts[name]
			fmt.Fprintf(w, "%s\t%d\t%d\n", name, s.Passed, s.Failed)
		}
		fmt.Fprintf(w, "total\t%d\t%d\n", total.Passed, total.Failed)
	})
}
