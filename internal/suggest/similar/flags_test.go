package similar

import (
	"bytes"
	"errors"
	"flag"
	"strings"
	"testing"
)

func TestParseFlags(t *testing.T) {
	parse := func(args ...string) (string, error) {
		var out bytes.Buffer
		flags := flag.NewFlagSet("rfx bench", flag.ContinueOnError)
		flags.SetOutput(&out)
		flags.Int("layers", 2, "how many")
		flags.String("lengths", "", "which")
		err := ParseFlags(flags, args)
		return out.String(), err
	}
	for args, want := range map[string]string{
		"-lenghts 2": "unknown flag -lenghts, did you mean -lengths?",
		"--layer 2":  "unknown flag -layer, did you mean -layers?",
		"-elephant":  "unknown flag -elephant (rfx bench -h lists the flags)",
		"-layers x":  `invalid value "x" for flag -layers: parse error (rfx bench -h lists the flags)`,
		"-layers":    "flag needs an argument: -layers (rfx bench -h lists the flags)",
	} {
		out, err := parse(strings.Fields(args)...)
		if err == nil || err.Error() != want || out != "" {
			t.Errorf("%s: %v, want %s; printed %q", args, err, want, out)
		}
	}
	out, err := parse("-h")
	if !errors.Is(err, flag.ErrHelp) || !strings.Contains(out, "-lengths") {
		t.Errorf("-h: %v, printed %q", err, out)
	}
	if out, err := parse("-layers", "3"); err != nil || out != "" {
		t.Errorf("%v, printed %q", err, out)
	}
}

// Flags may follow arguments.
func TestArguments(t *testing.T) {
	flags := flag.NewFlagSet("rfx eval", flag.ContinueOnError)
	n := flags.Int("n", 1, "how many")
	others, err := Arguments(flags, strings.Fields("a -n 2 b c -n 3"))
	if err != nil || *n != 3 || strings.Join(others, " ") != "a b c" {
		t.Errorf("%v, %d, %v", others, *n, err)
	}
	if _, err := Arguments(flags, strings.Fields("a -m 2")); err == nil {
		t.Error("an unknown flag after an argument is accepted")
	}
}
