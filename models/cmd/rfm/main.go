// Command rfm embeds and generates text with pretrained models on the CPU.
//
// Results go to stdout, everything else to stderr. The exit status is 0 if the command is done, 1 if it failed, 2 if
// it was misused and 130 after an interrupt. With --json every command prints one object per line.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat/internal/localfile"
	"github.com/randfeat/randfeat/internal/suggest"
	"github.com/randfeat/randfeat/models"
)

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(20) // most memory is weights and keys: their size again is not for garbage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := run(ctx, os.Stdin, os.Stdout, os.Stderr, os.Args[1:])
	stop()
	os.Exit(code)
}

// Exit statuses.
const (
	exitDone        = 0
	exitFailed      = 1
	exitMisuse      = 2
	exitInterrupted = 130 // what a shell reports for a process that SIGINT ended
)

// env has the streams and settings that all commands share.
type env struct {
	stdin  io.Reader
	stdout *bufio.Writer
	stderr io.Writer
	json   bool
	lost   bool // nobody would see what is written to stdout
	inLine bool // stdout has text without a line end
}

// piece prints a part of a text that is being generated.
func (e *env) piece(text string) error {
	e.inLine = true
	if _, err := e.stdout.WriteString(printable(text)); err != nil {
		return err
	}
	return e.stdout.Flush()
}

// endLine ends a text of pieces.
func (e *env) endLine() error {
	e.inLine = false
	if err := e.stdout.WriteByte('\n'); err != nil {
		return err
	}
	return e.stdout.Flush()
}

// misuse is an error in how a command was called, failure an error of its work. An error without either came from
// cobra's parsing of the arguments and counts as misuse.
type (
	misuse  struct{ error }
	failure struct{ error }
)

func (m misuse) Unwrap() error  { return m.error }
func (f failure) Unwrap() error { return f.error }

func misused(format string, args ...any) error { return misuse{fmt.Errorf(format, args...)} }

// do adapts the work of a command to cobra and marks its errors as failures.
func do(work func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := work(cmd, args); err != nil {
			return failure{err}
		}
		return nil
	}
}

// run is main without the process, for tests.
func run(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer, args []string) int {
	e := &env{stdin: stdin, stdout: bufio.NewWriter(stdout), stderr: stderr}
	if f, ok := stdout.(*os.File); ok {
		e.lost = localfile.LeadsNowhere(f)
	}
	root := command(e)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(e.stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if e.inLine {
		err = errors.Join(err, e.endLine())
	}
	if failed := e.stdout.Flush(); failed != nil && err == nil {
		err = failure{fmt.Errorf("cannot write to stdout: %w", failed)}
	}
	if err == nil {
		return exitDone
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		fmt.Fprintln(stderr, "rfm: interrupted")
		return exitInterrupted
	}
	fmt.Fprintf(stderr, "rfm: %s\n", printable(err.Error()))
	var failed failure
	var wrong misuse
	if errors.As(err, &failed) && !errors.As(err, &wrong) {
		return exitFailed
	}
	fmt.Fprintf(stderr, "Run '%s --help' for usage.\n", cmd.CommandPath())
	return exitMisuse
}

func command(e *env) *cobra.Command {
	root := &cobra.Command{
		Use:   "rfm",
		Short: "Embed and generate text with pretrained models on the CPU",
		Long: `rfm runs pretrained models on the CPU, with nothing else to install. Encoders embed and search texts (embed, search,
serve), cross-encoders rank them (rank). Decoders generate text (generate, chat, ask, perplexity, serve). With --compact they
remember long texts in fewer keys: calibrate measures how many every head needs, and check what that costs in accuracy.

MODEL is a name that was downloaded by pull, a GGUF file (Llama, SmolLM2, Qwen2, Qwen3, BERT) or a Hugging Face folder with config.json, model.safetensors and
tokenizer.json (BERT, RoBERTa, MPNet, ModernBERT and models based on them, such as MiniLM, BGE, GTE and E5;
Llama, Qwen2, Qwen3).

Results go to stdout, everything else to stderr. Exit status: 0 done, 1 failed, 2 misused, 130 interrupted.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          suggest.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.PersistentFlags().BoolVar(&e.json, "json", false, "print one JSON object per line")
	root.AddCommand(embedCommand(e), searchCommand(e), rankCommand(e), generateCommand(e), chatCommand(e),
		askCommand(e), perplexityCommand(e), calibrateCommand(e), checkCommand(e), infoCommand(e), serveCommand(e),
		pullCommand(e), listCommand(e), removeCommand())
	suggest.Flags(root)
	return root
}

// object prints one JSON object on a line of its own.
func (e *env) object(v any) error {
	enc := json.NewEncoder(e.stdout)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

func (e *env) note(format string, args ...any) {
	fmt.Fprintln(e.stderr, printable(fmt.Sprintf(format, args...)))
}

// printable escapes control characters other than line ends and tabs as Go does. Printed raw, they could move a
// terminal's cursor or change its settings.
func printable(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r != '\n' && r != '\t' && unicode.IsControl(r) {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// modelFlags are the flags of every command that opens a model.
type modelFlags struct {
	precision string
	prompts   map[string]string
	path      string // of the model that was opened
}

func (f *modelFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.precision, "precision", "", "float32 or int8 (default: int8 if the weights are quantised)")
}

// addPrompts adds the flag of models that embed.
func (f *modelFlags) addPrompts(cmd *cobra.Command) {
	cmd.Flags().StringToStringVar(&f.prompts, "prompt", nil,
		"`PURPOSE=TEXT` to put before texts, such as \"query=query: \" and \"document=passage: \" "+
			"for E5 (default: what the model's files say)")
}

// encoder opens a model that embeds.
func (f *modelFlags) encoder(path string) (*models.Model, error) {
	m, err := f.open(path)
	if err != nil {
		return nil, err
	}
	if m.Encoder == nil {
		m.Close()
		does := "generates text"
		if m.Ranker != nil {
			does = "ranks texts"
		}
		return nil, fmt.Errorf("%s %s (%s), and this command needs a model that embeds, such as all-MiniLM-L6-v2", path,
			does, m.Config().Architecture)
	}
	return m, nil
}

// decoder opens a model that generates.
func (f *modelFlags) decoder(path string) (*models.Model, error) {
	m, err := f.open(path)
	if err != nil {
		return nil, err
	}
	if m.Decoder == nil {
		m.Close()
		return nil, fmt.Errorf("%s embeds texts (%s), and this command needs a model that generates, such as SmolLM2", path,
			m.Config().Architecture)
	}
	return m, nil
}

func (f *modelFlags) open(path string) (*models.Model, error) {
	switch f.precision {
	case "", "float32", "int8":
	default:
		return nil, misused("--precision %q: want float32 or int8", f.precision)
	}
	var err error
	if f.path, err = modelPath(path); err != nil {
		return nil, err
	}
	return models.Open(f.path, models.Options{Precision: f.precision, Prompts: f.prompts})
}

// text returns an argument, or stdin for -.
func (e *env) text(arg string) (string, error) {
	if arg != "-" {
		return arg, nil
	}
	b, err := io.ReadAll(io.LimitReader(e.stdin, maxText+1))
	if err == nil && len(b) > maxText {
		err = fmt.Errorf("stdin has more than %d bytes", maxText)
	}
	return string(b), err
}

// maxText is the largest text that is held in memory, in bytes.
const maxText = 1 << 28

// readText reads a file of text, or stdin for -.
func (e *env) readText(path string) (string, error) {
	if path == "-" {
		return e.text("-")
	}
	b, err := localfile.Read(path, localfile.Format{Want: "a text", Max: maxText, Pipes: true, Check: checkText})
	return string(b), err
}

// checkText refuses files that begin with zero bytes, which no text has.
func checkText(r io.ReaderAt, _ int64) error {
	var head [512]byte
	n, err := r.ReadAt(head[:], 0)
	if err != nil && err != io.EOF {
		return err
	}
	if bytes.IndexByte(head[:n], 0) >= 0 {
		return errors.New("zero bytes, want a text")
	}
	return nil
}
