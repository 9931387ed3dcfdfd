/* randfeat.h: the C interface of randfeat.
 *
 * The library is built by "go build -buildmode=c-shared" in this folder (or c-archive). It has no global settings and all
 * functions may be called from any thread at the same time. The Python package uses this interface; other languages can.
 *
 * Handles.  Objects of the library (maps, tables, jobs, models, predictors, attentions) are named by numbers. A handle
 * is never 0 and never used again. rf_release gives it back; an unknown handle is an error, not a crash.
 *
 * Text.  An rf_string is a text of the caller: UTF-8, ended by 0. An rf_text is a text of the library: the caller frees
 * it with rf_free. Where an rf_text pointer is NULL, the caller does not want that text.
 *
 * Errors.  A function that can fail returns RF_OK or a kind of error, and writes what is wrong to err.
 *
 * Arrays.  Numbers stay where they are: the library reads and writes the caller's memory during a call. Tables and jobs
 * read it later too, so that it must stay valid until the table or the job is released (jobs: until rf_job_wait says
 * that they are finished).
 *
 * Jobs.  Functions with an argument "uint64_t *job" run before they return if job is NULL. Otherwise they start a job
 * and return at once: rf_job_wait waits for it, rf_job_cancel stops it, rf_job_result gives what it made.
 *
 * Fork.  A process that has loaded the library must not use it in a child made by fork without exec: the threads of
 * the library do not exist there.
 */
#ifndef RANDFEAT_H
#define RANDFEAT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef const char *rf_string;
typedef char *rf_text;

/* The version of this interface: rf_abi() of a library that fits this header. It grows with every change. */
#define RF_ABI 1

enum {
	RF_OK = 0,
	RF_VALUE = 1,     /* an argument cannot be used */
	RF_INPUT = 2,     /* the rows or columns of a table cannot be used */
	RF_CANCELLED = 3, /* rf_job_cancel was called */
	RF_INTERNAL = 4,  /* a bug of the library; the text has a trace */
	RF_NO_FORM = 5,   /* no closed form is known */
	RF_HANDLE = 6     /* a handle is unknown, released or of another kind of object */
};

/* Element types of arrays. */
enum {
	RF_F32 = 'f', RF_F64 = 'd', RF_BOOL = '?',
	RF_I8 = 'b', RF_U8 = 'B', RF_I16 = 'h', RF_U16 = 'H', RF_I32 = 'i', RF_U32 = 'I', RF_I64 = 'l', RF_U64 = 'L'
};

/* A matrix, or a column (cols = 1): element (i, j) is at data + i*row_stride + j*col_stride bytes. */
typedef struct {
	void *data;
	int64_t rows, cols;
	int64_t row_stride, col_stride; /* bytes; may be 0 or negative */
	int32_t dtype;
} rf_array;

/* A sequence of attention, [batch, head, position, dim]; the last axis is contiguous, strides are in elements. */
typedef struct {
	void *data;
	int64_t batch, heads, length, dim;
	int64_t stride_batch, stride_head, stride_length;
	int32_t dtype; /* RF_F32 */
} rf_seq;

/* The Arrow C stream interface, which rf_table_arrow reads. */
#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE
struct ArrowSchema {
	const char *format, *name, *metadata;
	int64_t flags, n_children;
	struct ArrowSchema **children, *dictionary;
	void (*release)(struct ArrowSchema *);
	void *private_data;
};
struct ArrowArray {
	int64_t length, null_count, offset, n_buffers, n_children;
	const void **buffers;
	struct ArrowArray **children, *dictionary;
	void (*release)(struct ArrowArray *);
	void *private_data;
};
#endif
#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE
struct ArrowArrayStream {
	int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *out);
	int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *out);
	const char *(*get_last_error)(struct ArrowArrayStream *);
	void (*release)(struct ArrowArrayStream *);
	void *private_data;
};
#endif

/* ---- The library */

int32_t rf_abi(void);                  /* RF_ABI of the library */
void rf_version(rf_text *out);         /* {"version", "go", "revision"} */
void rf_free(void *text);              /* frees an rf_text or what rf_model_write wrote; NULL is allowed */
void rf_release(uint64_t handle);      /* gives an object back; 0 is allowed */
int64_t rf_live(void);                 /* number of handles that were not released: what tests for leaks compare */
int32_t rf_threads(int32_t n);         /* at most n threads compute at the same time; 0 only asks. Returns the old n */
void rf_collect(void);                 /* collects garbage and returns free memory to the system */

/* ---- Jobs */

/* Waits at most ms milliseconds. *finished becomes 1 when the job has ended: the returned value is then that of the
 * work. stage, done and total (any may be NULL) say how far it is; total is 0 where it is unknown. */
int32_t rf_job_wait(uint64_t job, int32_t ms, int32_t *finished, rf_text *stage, int64_t *done, int64_t *total,
	rf_text *err);
void rf_job_cancel(uint64_t job);      /* asks the job to end; it may take a while: wait for it */
/* What a finished job made: a handle (0 where there is none) and JSON. The handle is handed over once. */
int32_t rf_job_result(uint64_t job, uint64_t *handle, rf_text *json, rf_text *err);

/* ---- Maps and kernels */

/* request: {"spec": SPEC, "features": F, "fit": true}. A spec is the JSON of "randfeat features --spec"; features, if
 * positive, sets the number of projections; fit takes the parameters of the family from the rows of x and y (NULL:
 * of x alone). info: {"spec", "dim", "features", "positive", "symmetric"}. */
int32_t rf_map_new(rf_string request, rf_array *x, rf_array *y, uint64_t *map, rf_text *info, rf_text *err);
/* Features of the rows of x, of queries (keys = 0) or keys (keys = 1), into out (rows x features, rows contiguous), both
 * RF_F32 or both RF_F64. log_scale, if not NULL, receives one number a row: features are then divided by its
 * exponential. workers: 0 for all processors. */
int32_t rf_map_apply(uint64_t map, rf_array *x, rf_array *out, double *log_scale, int32_t keys, int32_t workers,
	rf_text *err);
/* The same for one row: dim numbers in x, features in out, both of dtype, RF_F32 or RF_F64. The shortest way. */
int32_t rf_map_row(uint64_t map, void *x, int64_t dim, void *out, int64_t features, int32_t dtype, int32_t keys,
	rf_text *err);
/* Estimates of the kernel between the rows of x and y. */
int32_t rf_map_gram(uint64_t map, rf_array *x, rf_array *y, rf_array *out, int32_t workers, rf_text *err);
/* The exact kernel: {"kind": "gaussian", "scale": 2}. */
int32_t rf_kernel_gram(rf_string kernel, rf_array *x, rf_array *y, rf_array *out, rf_text *err);
/* {"families", "couplings", "kernels"}: what there is. */
int32_t rf_catalog(rf_string which, rf_text *json, rf_text *err);

/* ---- Closed forms */

/* All formulas: [{"name", "reference", "inputs": [{"key", "type"}]}]. */
int32_t rf_formulas(rf_text *json, rf_text *err);
/* One formula; inputs and the value are JSON, infinities are "inf" and "-inf". */
int32_t rf_formula(rf_string name, rf_string inputs, rf_text *value, rf_text *err);
/* The moments of the estimate of a spec at pairs of rows, row i of x with row i of y, one row of out (RF_F64) a pair:
 * log kernel, log mean, log |bias|, log variance, log mean squared error, 1 if approximate. warning may be "". */
int32_t rf_moments(rf_string spec, rf_array *x, rf_array *y, rf_array *out, rf_text *warning, rf_text *err);

/* ---- Advice */

/* Which feature map for queries x and keys y (NULL: one set)? options: {"kernel", "features", "target", "per_token_ns",
 * "positive", "loss", "measure", "unbiased", "families", "couplings", "rows", "draws", "brief", "seed"}. The result is
 * JSON: {"report", "html"}. */
int32_t rf_advise(rf_array *x, rf_array *y, rf_string options, uint64_t *job, rf_text *json, rf_text *err);

/* ---- Tables */

/* A table of columns in the caller's memory. columns is a list, an object for each array: {"name", "sort": "number" |
 * "boolean" | "text" | "time", "levels": [...], "unit": nanoseconds}. Texts are codes of levels, a code outside of
 * which is missing; times are integers since 1970 in units of "unit", or days where it is 0, and the least int64 is
 * missing; NaN is a missing number. "codes" of truth values may be a column of sort text with two levels. */
int32_t rf_table_columns(rf_array *arrays, rf_string columns, uint64_t *table, rf_text *err);
/* A table of an Arrow C stream, which is read to its end and released. info: {"rows", "columns": [names]}. */
int32_t rf_table_arrow(struct ArrowArrayStream *stream, uint64_t *table, rf_text *info, rf_text *err);

/* The columns of two tables of as many rows side by side. It reads the memory of both: release them after it. */
int32_t rf_table_join(uint64_t left, uint64_t right, uint64_t *table, rf_text *err);

/* ---- Models */

/* Fits a model. options is the JSON of tabular.Options. The job's result is a model and {"report"}. */
int32_t rf_fit(uint64_t table, rf_string options, int32_t workers, uint64_t *job, uint64_t *model, rf_text *report,
	rf_text *err);
int32_t rf_model_read(void *bytes, int64_t size, uint64_t *model, rf_text *err);      /* a model file */
int32_t rf_model_write(uint64_t model, void **bytes, int64_t *size, rf_text *err);    /* the same, for rf_free */
int32_t rf_model_info(uint64_t model, rf_text *json, rf_text *err);
/* A predictor. options: {"columns": [names of the tables], "probabilities", "scores", "variance", "interval",
 * "float32", "strict", "workers"}. info: {"columns": [names of the predictions]}. */
int32_t rf_predictor_new(uint64_t model, rf_string options, uint64_t *predictor, rf_text *info, rf_text *err);
/* Predicts the rows of a table with the predictor's columns into out (RF_F64, rows contiguous): the class of a
 * classification is its number in the order of the model. surprises is a list: how the rows differ from those of the
 * fit. */
int32_t rf_predict(uint64_t predictor, uint64_t table, rf_array *out, uint64_t *job, rf_text *surprises, rf_text *err);
/* The same for rows of numbers, one column of x for each column of the predictor. */
int32_t rf_predict_rows(uint64_t predictor, rf_array *x, rf_array *out, uint64_t *job, rf_text *surprises,
	rf_text *err);
/* The same for one row: columns numbers in x, outs numbers in out, as many as the predictor has. The shortest way. */
int32_t rf_predict_row(uint64_t predictor, double *x, int64_t columns, double *out, int64_t outs, rf_text *surprises,
	rf_text *err);

/* ---- Attention */

/* Chooses the method of every head for data like q, k and v. options: {"tol", "budget", "causal", "scale", "seed",
 * "online", "by_cost"}. The result is an attention and its JSON form. */
int32_t rf_attention_choose(rf_seq *q, rf_seq *k, rf_seq *v, rf_string options, int32_t workers, uint64_t *job,
	uint64_t *attention, rf_text *json, rf_text *err);
int32_t rf_attention_read(rf_string json, uint64_t *attention, rf_text *err);         /* the JSON form */
/* Attention of q over k and v into out. attention 0 is exact attention: causal and scale (0: 1/sqrt(dim)) are for
 * it alone. report, if not NULL, receives counts of rows as JSON. */
int32_t rf_attention_run(uint64_t attention, rf_seq *q, rf_seq *k, rf_seq *v, rf_seq *out, int32_t causal,
	double scale, int32_t workers, uint64_t *job, rf_text *report, rf_text *err);

/* For tests: panics in the calling goroutine (where = 0) or in a worker (where = 1), which must be errors. */
int32_t rf_test_panic(int32_t where, rf_text *err);

#ifdef __cplusplus
}
#endif
#endif
