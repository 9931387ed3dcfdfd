package main

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat/internal/suggest"
	"github.com/randfeat/randfeat/models"
)

// Generation is the object that generate and ask print with --json.
type Generation struct {
	Text         string  `json:"text"`
	PromptTokens int     `json:"prompt_tokens"`
	Tokens       int     `json:"tokens"`
	Reason       string  `json:"reason"` // end, stop or length
	Seed         uint64  `json:"seed"`
	ReadSeconds  float64 `json:"read_seconds"`
	Seconds      float64 `json:"seconds"`
}

type generateFlags struct {
	modelFlags
	models.Generate
	chat    bool
	system  string
	compact int

	calibration string
}

func (f *generateFlags) add(cmd *cobra.Command) {
	f.modelFlags.add(cmd)
	fl := cmd.Flags()
	fl.IntVarP(&f.MaxTokens, "max-tokens", "n", 256, "largest number of tokens to generate; 0: until the model's context is full")
	fl.Float64Var(&f.Temperature, "temperature", 0, "0 takes the most probable token, 1 draws by the model's probabilities")
	fl.Float64Var(&f.TopP, "top-p", 1, "draw only from the most probable tokens that together have this probability")
	fl.Uint64Var(&f.Seed, "seed", 1, "seed of the draws: the same seed gives the same text")
	fl.StringArrayVar(&f.Stop, "stop", nil, "`text` that ends the generation and is not printed; repeatable")
}

// addCompact adds the flags of commands that can compact what they read.
func (f *generateFlags) addCompact(cmd *cobra.Command, usage string) {
	cmd.Flags().IntVar(&f.compact, "compact", 1, usage)
	cmd.Flags().StringVar(&f.calibration, "calibration", "",
		"`file` of rfm calibrate for --compact (default: MODEL.calibration.json if there is one)")
}

func (f *generateFlags) check() error {
	switch {
	case f.MaxTokens < 0:
		return misused("--max-tokens is %d, want 0 or more", f.MaxTokens)
	case !(f.Temperature >= 0 && f.Temperature <= 100):
		return misused("--temperature is %v, want 0 to 100", f.Temperature)
	case !(f.TopP > 0 && f.TopP <= 1):
		return misused("--top-p is %v, want more than 0 and at most 1", f.TopP)
	case slices.Contains(f.Stop, ""):
		return misused("--stop is empty")
	case f.compact < 1:
		return misused("--compact is %d, want 1 or more", f.compact)
	case f.compact == 1 && f.calibration != "":
		return misused("--calibration is for --compact, which is not set")
	}
	return nil
}

// open opens a decoder, with its calibration if the prompt is compacted.
func (f *generateFlags) open(e *env, path string) (*models.Model, error) {
	m, err := f.decoder(path)
	if err != nil || f.compact == 1 {
		return m, err
	}
	d, err := e.calibrated(m.Decoder, f.calibration, f.path)
	if err != nil {
		m.Close()
		return nil, err
	}
	m.Decoder = d
	return m, nil
}

func generateCommand(e *env) *cobra.Command {
	var f generateFlags
	cmd := &cobra.Command{
		Use:   "generate MODEL PROMPT",
		Short: "Continue a text, or answer a message (--chat)",
		Long: `generate continues PROMPT (- for stdin) and prints the text as it is generated. Models that were tuned on conversations
(…-Instruct) answer PROMPT with --chat; without it they continue the text.`,
		Example: `  rfm generate smollm2.gguf "The capital of France is" -n 20
  rfm generate smollm2.gguf --chat "Write a haiku about autumn." --temperature 0.8 --top-p 0.9 --seed 7`,
		Args: suggest.Args("a model and a prompt", 2, 2),
		RunE: do(func(cmd *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			prompt, err := e.text(args[1])
			if err != nil {
				return err
			}
			m, err := f.open(e, args[0])
			if err != nil {
				return err
			}
			defer m.Close()
			ids := m.Tokens.Wrap(nil, m.Tokens.Encode(nil, prompt), 0)
			if f.chat {
				if ids, err = m.Decoder.Chat(f.messages(prompt), m.Decoder.Context()); err != nil {
					return fmt.Errorf("%s: %w", args[0], err)
				}
			} else if f.system != "" {
				return misused("--system needs --chat")
			}
			s, err := m.Decoder.Session()
			if err != nil {
				return err
			}
			if f.compact > 1 {
				s.KeepQueries()
			}
			return f.answer(cmd, e, s, ids, f.compact)
		}),
	}
	f.add(cmd)
	f.addCompact(cmd, "keep 1/N of the prompt's keys while generating; 1 keeps all")
	cmd.Flags().BoolVar(&f.chat, "chat", false, "PROMPT is a message to the model: answer it")
	cmd.Flags().StringVar(&f.system, "system", "", "with --chat: a `text` that tells the model how to answer")
	return cmd
}

// messages is a conversation of one message, behind the system's if there is one.
func (f *generateFlags) messages(text string) []models.Message {
	var list []models.Message
	if f.system != "" {
		list = append(list, models.Message{Role: "system", Content: f.system})
	}
	return append(list, models.Message{Role: "user", Content: text})
}

// answer reads ids, compacts the session if the factor is above 1, and generates and prints the continuation.
func (f *generateFlags) answer(cmd *cobra.Command, e *env, s *models.Session, ids []int32, compact int) error {
	if len(ids) == 0 {
		return misused("the prompt is empty")
	}
	start := time.Now()
	g := Generation{PromptTokens: len(ids), Seed: f.Seed}
	if err := s.Read(cmd.Context(), ids); err != nil {
		return err
	}
	if compact > 1 {
		if err := s.Compact(compact); err != nil {
			return err
		}
	}
	read := time.Now()
	g.ReadSeconds = read.Sub(start).Seconds()
	var text strings.Builder
	done, err := s.Generate(cmd.Context(), f.Generate, func(piece string) error {
		if e.json {
			text.WriteString(piece)
			return nil
		}
		return e.piece(piece)
	})
	if err != nil {
		return err
	}
	g.Text, g.Tokens, g.Reason, g.Seconds = text.String(), done.Tokens, done.Reason, time.Since(read).Seconds()
	if e.json {
		return e.object(g)
	}
	if err := e.endLine(); err != nil {
		return err
	}
	e.note("%d tokens read in %.2f s, %d generated in %.2f s (%.1f tokens/s), ended by %s", g.PromptTokens, g.ReadSeconds,
		g.Tokens, g.Seconds, float64(g.Tokens)/g.Seconds, g.Reason)
	return nil
}

// Perplexity is the object that perplexity prints with --json.
type Perplexity struct {
	Perplexity float64 `json:"perplexity"`
	Tokens     int     `json:"tokens"` // scored
	Context    int     `json:"context"`
	Seconds    float64 `json:"seconds"`
}

func perplexityCommand(e *env) *cobra.Command {
	var f modelFlags
	var window int
	cmd := &cobra.Command{
		Use:   "perplexity MODEL TEXT",
		Short: "Measure how well a model predicts a text",
		Long: `perplexity cuts the text file TEXT (- for stdin) into windows of --context tokens. It prints exp(mean of −log p), where p
is the probability of a token given the tokens before it in its window. The first token of a window is not counted.`,
		Example: `  rfm perplexity smollm2.gguf book.txt --context 2048`,
		Args:    suggest.Args("a model and a text", 2, 2),
		RunE: do(func(cmd *cobra.Command, args []string) error {
			if window < 2 {
				return misused("--context is %d, want 2 or more", window)
			}
			text, err := e.readText(args[1])
			if err != nil {
				return err
			}
			m, err := f.decoder(args[0])
			if err != nil {
				return err
			}
			defer m.Close()
			p := Perplexity{Context: min(window, m.Decoder.Context())}
			ids, sum, start := m.Tokens.EncodeText(nil, text), 0.0, time.Now()
			for len(ids) > 1 {
				s, err := m.Decoder.Session()
				if err != nil {
					return err
				}
				n := min(p.Context, len(ids))
				loss, count, err := s.Score(cmd.Context(), ids[:n])
				if err != nil {
					return err
				}
				sum, p.Tokens, ids = sum+loss, p.Tokens+count, ids[n:]
			}
			if p.Tokens == 0 {
				return fmt.Errorf("%s has fewer than two tokens", args[1])
			}
			p.Perplexity, p.Seconds = math.Exp(sum/float64(p.Tokens)), time.Since(start).Seconds()
			if e.json {
				return e.object(p)
			}
			_, err = fmt.Fprintf(e.stdout, "perplexity %.4f over %d tokens in windows of %d (%.0f tokens/s)\n", p.Perplexity,
				p.Tokens, p.Context, float64(p.Tokens)/p.Seconds)
			return err
		}),
	}
	f.add(cmd)
	cmd.Flags().IntVar(&window, "context", 1024, "tokens per window")
	return cmd
}

func askCommand(e *env) *cobra.Command {
	var f generateFlags
	var session, model, document string
	cmd := &cobra.Command{
		Use:   "ask QUESTION",
		Short: "Ask questions about a document that is read once",
		Long: `ask answers a question about a document. The first call reads the document and writes the session, the state of the
model after reading, into a file; later calls with the same --session answer at once. The session is not changed by
questions and works only with the model that wrote it. --compact 8 keeps an eighth of the keys: with 8-bit weights the
file shrinks to a fifth. Single facts, such as numbers, may be lost.`,
		Example: `  rfm ask --model smollm2.gguf --read report.txt --session report.rfs "What was decided?"
  rfm ask --session report.rfs "By whom?"`,
		Args: suggest.Args("a question", 1, 1),
		RunE: do(func(cmd *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			switch {
			case session == "":
				return misused("--session names no file")
			case f.compact > 1 && document == "":
				return misused("--compact needs --read: it works while a document is read")
			}
			m, s, err := openSession(cmd, e, &f, session, model, document)
			if err != nil {
				return err
			}
			defer m.Close()
			ids, err := askIDs(m, args[0])
			if err != nil {
				return err
			}
			return f.answer(cmd, e, s, ids, 1)
		}),
	}
	f.add(cmd)
	fl := cmd.Flags()
	fl.StringVar(&session, "session", "", "session `file`")
	fl.StringVar(&model, "model", "", "model (default: the model that the session names)")
	fl.StringVar(&document, "read", "", "document `file` to read; writes a new session")
	f.addCompact(cmd, "with --read: keep 1/N of the document's keys; 1 keeps all")
	return cmd
}

// openSession resumes a session or, if a document is given, reads it into a new session and saves it. The note in
// the file is the path of the model.
func openSession(cmd *cobra.Command, e *env, f *generateFlags, session, model, document string) (
	*models.Model, *models.Session, error) {
	if document == "" {
		if model == "" {
			note, err := models.SessionNote(session)
			if err != nil {
				return nil, nil, err
			}
			model = note
		}
		m, err := f.open(e, model)
		if err != nil {
			return nil, nil, err
		}
		s, err := m.Decoder.Resume(session)
		if err != nil {
			m.Close()
		}
		return m, s, err
	}
	if model == "" {
		return nil, nil, misused("--read needs --model")
	}
	text, err := e.readText(document)
	if err != nil {
		return nil, nil, err
	}
	m, err := f.open(e, model)
	if err != nil {
		return nil, nil, err
	}
	s, err := readDocument(cmd, m, text, f.compact)
	if err == nil {
		if full, absErr := filepath.Abs(f.path); absErr == nil { // the session may be used from another folder
			model = full
		}
		err = s.Save(session, model)
	}
	if err != nil {
		m.Close()
		return nil, nil, err
	}
	e.note("%d tokens read into %s", s.Len(), session)
	return m, s, nil
}

// readDocument reads a document into a new session. For conversation models it is the beginning of the user's turn,
// which the question then completes.
func readDocument(cmd *cobra.Command, m *models.Model, text string, compact int) (*models.Session, error) {
	s, err := m.Decoder.Session()
	if err != nil {
		return nil, err
	}
	ids := m.Tokens.Wrap(nil, m.Tokens.EncodeText(nil, text), 0)
	if m.Decoder.CanChat() == nil {
		ids, err = m.Decoder.ChatOpen([]models.Message{{Role: "user",
			Content: "Answer questions about this document.\n\n" + text}})
		if err != nil {
			return nil, err
		}
	}
	if compact == 1 {
		return s, s.Read(cmd.Context(), ids)
	}
	s.KeepQueries()
	if err := s.Read(cmd.Context(), ids); err != nil {
		return nil, err
	}
	return s, s.Compact(compact)
}

// askIDs returns the ids of a question after a document, up to the beginning of the answer.
func askIDs(m *models.Model, q string) ([]int32, error) {
	if m.Decoder.CanChat() != nil {
		return m.Tokens.EncodeText(nil, "\n\nQuestion: "+q+"\nAnswer:"), nil
	}
	return m.Decoder.ChatRest("\n\n" + q)
}

// Info is the object that info prints with --json.
type Info struct {
	Architecture string `json:"architecture"`
	Task         string `json:"task"` // embed or generate
	Layers       int    `json:"layers"`
	Hidden       int    `json:"hidden"`
	Heads        int    `json:"heads"`
	KVHeads      int    `json:"kv_heads"`
	Vocabulary   int    `json:"vocabulary"`
	Context      int    `json:"context"`
}

func infoCommand(e *env) *cobra.Command {
	var f modelFlags
	cmd := &cobra.Command{
		Use:   "info MODEL",
		Short: "Show architecture, sizes and precision of a model",
		Args:  suggest.Args("a model", 1, 1),
		RunE: do(func(_ *cobra.Command, args []string) error {
			m, err := f.open(args[0])
			if err != nil {
				return err
			}
			defer m.Close()
			c := m.Config()
			i := Info{c.Architecture, "embed", c.Layers, c.Hidden, c.Heads, c.KVHeads, c.Vocab, c.MaxPositions}
			if m.Decoder != nil {
				i.Task = "generate"
			}
			if e.json {
				return e.object(i)
			}
			_, err = fmt.Fprintf(e.stdout, "%s: %s, %d layers of %d columns, %d heads (%d of keys), %d tokens, context %d\n",
				i.Architecture, i.Task, i.Layers, i.Hidden, i.Heads, i.KVHeads, i.Vocabulary, i.Context)
			return err
		}),
	}
	f.add(cmd)
	return cmd
}
