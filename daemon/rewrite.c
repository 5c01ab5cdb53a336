#include "rewrite.h"

#include "failpoint.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

/* Of a dry run's rows so many in a row are compressed, and then so many times as many are only counted. */
#define SAMPLE_ROWS 4096u
#define SAMPLE_SKIP 7u
/* A dry run of so few bytes compresses everything. */
#define SAMPLE_ALL (32u << 20)
/* Of a value that comes in pieces a dry run compresses so much. */
#define SAMPLE_LONG (4u << 20)
/* Counters that others watch are brought up to date so often. */
#define TELL_ROWS 256u

/* ---- rules ------------------------------------------------------------------------------------------------------ */

static int compare(const struct bytes a, const char *b, size_t b_len)
{
    size_t shorter = a.len < b_len ? a.len : b_len;
    int r = shorter ? memcmp(a.data, b, shorter) : 0;

    return r ? r : (a.len > b_len) - (a.len < b_len);
}

static bool rule_drops(const struct prune *p, const struct row *row)
{
    bool keyed = row->flags & ROW_KEYED;

    switch (p->rule) {
    case PRUNE_BEFORE:
        return row->time_us < p->time_us;
    case PRUNE_PREFIX:
        return keyed &&
               (row->key.len < p->key_len || (p->key_len && memcmp(row->key.data, p->key, p->key_len) != 0));
    case PRUNE_RANGE:
        return keyed && compare(row->key, p->key, p->key_len) >= 0 &&
               (!p->key_to_len || compare(row->key, p->key_to, p->key_to_len) < 0);
    }
    return false;
}

bool prune_drops(const struct prune *rules, size_t n, const struct row *row)
{
    for (size_t i = 0; i < n; i++)
        if (rule_drops(&rules[i], row))
            return true;
    return false;
}

/* ---- verifying -------------------------------------------------------------------------------------------------------- */

static int is_cancelled(void *arg)
{
    return atomic_load_explicit(&((struct rewrite *)arg)->cancelled, memory_order_relaxed);
}

/* What was written is read again before anything rests on it. */
static int verify_output(struct rewrite *rw, const struct output *o, struct errmsg *msg)
{
    struct entry_file *file;
    struct entry_expect expect = { .log = rw->log,
                                   .uuid = rw->uuid,
                                   .table = rw->table,
                                   .footer_check = o->entry.footer_check,
                                   .size = o->entry.size };

    int fd = dup(o->fd);
    if (fd < 0)
        return fail(msg, -errno, "cannot read what was written: %s", strerror(errno));
    int r = entry_file_open(&file, fd, "a file that the compaction wrote", &expect, msg);
    if (r < 0)
        return r;
    r = entry_file_verify(file, msg);
    entry_file_close(file);
    return r;
}

static int verify_outputs(struct rewrite *rw, const struct output *outputs, size_t n, struct errmsg *msg)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < n && !rw->dry_run; i++)
        r = is_cancelled(rw) ? -ECANCELED : verify_output(rw, &outputs[i], msg);
    return r;
}

/* ---- one part of the scan, on its thread ---------------------------------------------------------------------------- */

struct part_job {
    struct rewrite *rw;
    struct rowset *set;
    unsigned part;
    pthread_t thread;
    bool running;
    bool sample; /* only some of the rows are written */
    struct rows_out out;
    uint64_t sampled_bytes; /* of a dry run: of files that were filled, and are gone again */
    uint64_t rows, rows_pruned, raw_bytes, told_bytes;
    int error;
    struct errmsg msg;
};

void rewrite_settings(const struct rewrite *rw, struct rows_out *ret)
{
    size_t memory = rw->memory / (4 * rw->threads);

    /* Of a sample the file and what sorts its keys are in memory together. */
    *ret = (struct rows_out){ .store = rw->store,
                              .dir = rw->dir,
                              .in_memory = rw->dry_run,
                              .target_size = rw->dry_run ? memory / 2 : rw->target_size,
                              .fd = -1,
                              .options = { .log = rw->log,
                                           .uuid = rw->uuid,
                                           .table = rw->table,
                                           .seen_seq = rw->seen_seq,
                                           .block_size = rw->block_size,
                                           .level = rw->level,
                                           .memory = memory,
                                           .temp_dir = rw->dir } };
}

static int write_piece(struct part_job *job, struct rowset_cursor *cursor, uint64_t off, char *buffer,
                       size_t len)
{
    int r = FAILPOINT("compact.piece");

    if (r == 0 && is_cancelled(job->rw))
        r = -ECANCELED;
    if (r == 0)
        r = rowset_value_read(cursor, off, buffer, len, &job->msg);
    return r < 0 ? r : rows_out_piece(&job->out, buffer, len, &job->msg);
}

/* However long it is, it can be cancelled; and a sample has only its beginning. */
static int write_long(struct part_job *job, struct rowset_cursor *cursor, const struct row *row)
{
    char *buffer = malloc(ROW_WHOLE);
    uint64_t end = job->rw->dry_run && row->value_len > SAMPLE_LONG ? SAMPLE_LONG : row->value_len;
    int r = buffer ? rows_out_put(&job->out, row->flags, row->key, NULL, end, row->time_us, &job->msg)
                   : fail(&job->msg, -ENOMEM,
                          "skaded has no memory for this compaction: compact_memory and compact_threads "
                          "bound what it takes");

    for (uint64_t off = 0; r == 0 && off < end;) {
        size_t len = end - off < ROW_WHOLE ? (size_t)(end - off) : ROW_WHOLE;
        r = write_piece(job, cursor, off, buffer, len);
        off += len;
    }
    free(buffer);
    return r;
}

static int write_row(struct part_job *job, struct rowset_cursor *cursor, const struct row *row)
{
    if (row->value_len && !row->value)
        return write_long(job, cursor, row);
    return rows_out_put(&job->out, row->flags, row->key, row->value_len ? row->value : "", row->value_len,
                        row->time_us, &job->msg);
}

/* All that a dry run wants to know of a file that is full is its size. */
static void measure_sample(struct part_job *job)
{
    struct rows_out *out = &job->out;

    while (job->rw->dry_run && out->count) {
        job->sampled_bytes += out->outputs[--out->count].entry.size;
        close(out->outputs[out->count].fd);
    }
}

/* Is this row one of those that a dry run compresses? */
static bool in_sample(const struct part_job *job)
{
    return !job->rw->dry_run || !job->sample || (job->rows / SAMPLE_ROWS) % (SAMPLE_SKIP + 1) == 0;
}

static int take_row(struct part_job *job, struct rowset_cursor *cursor, const struct row *row)
{
    int r = 0;

    if (prune_drops(job->rw->rules, job->rw->rules_count, row)) {
        job->rows_pruned++;
        return 0;
    }
    if (in_sample(job))
        r = write_row(job, cursor, row);
    measure_sample(job);
    job->rows++;
    job->raw_bytes += row->key.len + row->value_len;
    return r;
}

static void tell_bytes(struct part_job *job)
{
    uint64_t bytes = job->sampled_bytes + rows_out_bytes(&job->out);

    atomic_fetch_add_explicit(&job->rw->bytes_written, bytes - job->told_bytes, memory_order_relaxed);
    job->told_bytes = bytes;
}

static void run_part(struct part_job *job)
{
    struct rewrite *rw = job->rw;
    struct rowset_cursor *cursor;
    struct row row;
    uint64_t told = 0, seen = 0;

    int r = rowset_cursor_open(&cursor, job->set, OLDEST_FIRST, job->part, rw->threads, &job->msg);
    if (r < 0) {
        job->error = r;
        return;
    }
    while ((r = rowset_next_at_hand(cursor, &row) ? 1 : rowset_next(cursor, &row, &job->msg)) == 1) {
        r = take_row(job, cursor, &row);
        if (r < 0)
            break;
        if (++seen - told < TELL_ROWS && row.value_len < ROW_WHOLE)
            continue;
        atomic_fetch_add_explicit(&rw->rows_done, seen - told, memory_order_relaxed);
        told = seen;
        tell_bytes(job);
        if (atomic_load_explicit(&rw->cancelled, memory_order_relaxed)) {
            r = -ECANCELED;
            break;
        }
    }
    rowset_cursor_close(cursor);
    atomic_fetch_add_explicit(&rw->rows_done, seen - told, memory_order_relaxed);
    if (r >= 0)
        r = FAILPOINT("compact.scanned");
    if (r >= 0)
        r = rows_out_finish(&job->out, &job->msg);
    measure_sample(job);
    if (r >= 0)
        r = verify_outputs(rw, job->out.outputs, job->out.count, &job->msg);
    job->error = r < 0 ? r : 0;
    if (r < 0) /* the others needn't go on */
        atomic_store(&rw->cancelled, true);
}

static void *part_thread(void *arg)
{
    run_part(arg);
    return NULL;
}

/* ---- all of it ------------------------------------------------------------------------------------------------------------ */

/* What a compaction reads it holds: nobody else removes files. */
static bool is_held(void *arg)
{
    (void)arg;
    return true;
}

static int open_set(struct rewrite *rw, struct rowset **ret)
{
    struct rowset_options options = { .log = rw->log,
                                      .table = rw->table,
                                      .owner = geteuid(),
                                      .memory = rw->memory / 2,
                                      .cancelled = is_cancelled,
                                      .held = is_held,
                                      .arg = rw };
    struct rowset_file *files = calloc(rw->files_count + 1, sizeof *files);

    if (!files)
        return fail(&rw->msg, -ENOMEM,
                    "skaded has no memory for this compaction: compact_memory and compact_threads bound what "
                    "it takes");
    for (size_t i = 0; i < rw->files_count; i++)
        files[i] = (struct rowset_file){ rw->files[i].path, rw->files[i].seq, rw->files[i].time_us,
                                         rw->files[i].base };
    int r = rowset_open(ret, files, rw->files_count, &options, &rw->msg);
    free(files);
    return r;
}

/* The files of OUT are the next of the job's. */
static int take_outputs(struct rewrite *rw, struct rows_out *out)
{
    struct output *more = realloc(rw->outputs, (rw->outputs_count + out->count + 1) * sizeof *more);

    if (!more)
        return fail(&rw->msg, -ENOMEM,
                    "skaded has no memory for this compaction: compact_memory and compact_threads bound what "
                    "it takes");
    rw->outputs = more;
    for (size_t i = 0; i < out->count; i++) {
        rw->bytes_after += out->outputs[i].entry.size;
        rw->outputs[rw->outputs_count++] = out->outputs[i];
    }
    out->count = 0;
    return 0;
}

static int run_parts(struct rewrite *rw, struct rowset *set, bool sample)
{
    struct part_job *jobs = calloc(rw->threads, sizeof *jobs);
    uint64_t sampled = 0;
    int r = 0;

    if (!jobs)
        return fail(&rw->msg, -ENOMEM,
                    "skaded has no memory for this compaction: compact_memory and compact_threads bound what "
                    "it takes");
    for (unsigned i = 0; i < rw->threads; i++) {
        jobs[i] = (struct part_job){ .rw = rw, .set = set, .part = i, .sample = sample };
        rewrite_settings(rw, &jobs[i].out);
        if (i > 0)
            jobs[i].running = pthread_create(&jobs[i].thread, NULL, part_thread, &jobs[i]) == 0;
    }
    for (unsigned i = 0; i < rw->threads; i++)
        if (!jobs[i].running) /* the first is ours, and whatever found no thread */
            run_part(&jobs[i]);
    for (unsigned i = 0; i < rw->threads; i++) {
        if (jobs[i].running)
            pthread_join(jobs[i].thread, NULL);
        /* A part that was only told to stop isn't the cause. */
        if (jobs[i].error < 0 && (r == 0 || r == -ECANCELED)) {
            r = jobs[i].error;
            rw->msg = jobs[i].msg;
        }
        rw->rows += jobs[i].rows;
        rw->rows_pruned += jobs[i].rows_pruned;
        rw->raw_bytes += jobs[i].raw_bytes;
        rw->bytes_after += jobs[i].sampled_bytes;
        sampled += jobs[i].out.raw_bytes;
    }
    for (unsigned i = 0; r == 0 && i < rw->threads; i++)
        r = take_outputs(rw, &jobs[i].out);
    if (r == 0 && rw->dry_run && sampled < rw->raw_bytes) {
        rw->bytes_after =
            sampled ? (uint64_t)((double)rw->bytes_after * (double)rw->raw_bytes / (double)sampled) : 0;
        rw->sampled = true;
    }
    if (rw->dry_run && rw->rows) /* as many files as the size asks for */
        rw->files_after = (rw->bytes_after + rw->target_size - 1) / rw->target_size;
    else
        rw->files_after = rw->outputs_count;
    rw->bytes_after += manifest_size(rw->files_after);
    for (unsigned i = 0; i < rw->threads; i++)
        rows_out_fini(&jobs[i].out);
    free(jobs);
    return r;
}

void rewrite_run(struct rewrite *rw)
{
    struct rowset *set = NULL;
    struct rowset_sum sum = { 0 };

    int r = FAILPOINT("compact.begin");
    if (r == 0)
        r = open_set(rw, &set);
    if (r == 0)
        r = rowset_prepare(set, &rw->msg);
    if (r == 0)
        r = rowset_sum(set, &sum, &rw->msg);
    if (r == 0) {
        rw->files_before = sum.files;
        rw->bytes_before = sum.bytes;
        atomic_store(&rw->rows_total, sum.rows);
        r = run_parts(rw, set, sum.raw_bytes > SAMPLE_ALL);
    }
    rowset_close(set);
    rw->error = r < 0 ? r : 0;
    if (r == -ECANCELED && !rw->msg.text[0])
        fail(&rw->msg, r, "the compaction was cancelled");
}

void rewrite_take(struct rewrite *rw, struct rows_out *out)
{
    struct rowset *set = NULL;
    struct rowset_sum sum = { 0 };

    int r = rows_out_finish(out, &rw->msg);
    rw->rows = out->rows;
    rw->raw_bytes = out->raw_bytes;
    if (r == 0)
        r = take_outputs(rw, out);
    if (r == 0)
        r = open_set(rw, &set);
    if (r == 0)
        r = rowset_sum(set, &sum, &rw->msg);
    rw->files_before = sum.files;
    rw->bytes_before = sum.bytes;
    rowset_close(set);
    rw->files_after = rw->outputs_count;
    rw->bytes_after += manifest_size(rw->files_after);
    if (r == 0)
        r = verify_outputs(rw, rw->outputs, rw->outputs_count, &rw->msg);
    rw->error = r < 0 ? r : 0;
}

void rewrite_fini(struct rewrite *rw)
{
    for (size_t i = 0; i < rw->outputs_count; i++)
        close(rw->outputs[i].fd);
    free(rw->outputs);
    rw->outputs = NULL;
    rw->outputs_count = 0;
}
