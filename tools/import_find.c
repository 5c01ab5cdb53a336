/*
 * From the arguments of `skadectl import` to tables and their files.
 */
#include "import_plan.h"

#include "import_order.h"
#include "skade_errors.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define METADATA_DIR "metadata"
#define NAME_MAX_BYTES 1024 /* of a table's name */

struct finder {
    const struct import_options *options;
    struct import_tables *tables;
    struct iceberg_error *err;
    const char *root; /* the directory that --base-uri stands for, real path */
};

static int no_memory(struct finder *f)
{
    return iceberg_fail(f->err, -ENOMEM, "no memory to list the files");
}

void import_tell(const struct import_options *options, enum import_news news, const char *format, ...)
{
    struct iceberg_error line;
    char text[sizeof line.text];
    va_list args;
    if (!options->tell)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    iceberg_fail(&line, 0, "%s", text); /* for what it does to control characters */
    options->tell(options->arg, news, line.text);
}

/* ---- paths and names ----------------------------------------------------------------------------------- */

static char *join(const char *dir, const char *name)
{
    char *path = NULL;
    size_t len = strlen(dir);
    bool slash = len > 0 && dir[len - 1] == '/';
    return asprintf(&path, "%s%s%s", dir, slash ? "" : "/", name) < 0 ? NULL : path;
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool is_metadata_dir(const char *dir)
{
    return strcmp(last_part(dir), METADATA_DIR) == 0;
}

/* Where the part that ends at END begins. */
static const char *part_before(const char *path, const char *end)
{
    while (end > path && end[-1] != '/')
        end--;
    return end;
}

static int without_db(const char *part, int len)
{
    return len > 3 && memcmp(part + len - 3, ".db", 3) == 0 ? len - 3 : len;
}

/* "sales.orders" for ".../sales.db/orders/metadata"; NULL when there is no memory. */
static char *name_from_path(const char *metadata_dir)
{
    char *name = NULL;
    const char *end = last_part(metadata_dir) - 1;
    const char *table = part_before(metadata_dir, end);
    const char *space_end = table - 1;
    const char *space = space_end > metadata_dir ? part_before(metadata_dir, space_end) : space_end;
    int space_len = space_end > metadata_dir ? without_db(space, (int)(space_end - space)) : 0;
    int r = asprintf(&name, "%.*s%s%.*s", space_len, space, space_len ? "." : "", (int)(end - table), table);
    return r < 0 ? NULL : name;
}

/* What is wrong with NAME as a table's name, or NULL.  Whether it is UTF-8 the library checks. */
static const char *name_fault(const char *name)
{
    size_t len = strlen(name);
    if (len == 0 || len > NAME_MAX_BYTES)
        return "1 to 1024 bytes are allowed";
    if (name[0] == '.' || name[len - 1] == '.' || strstr(name, ".."))
        return "it has an empty level";
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f || name[i] == '/')
            return "it has a slash or a control character";
    return NULL;
}

static char *location_of(const struct finder *f, const char *path)
{
    char *location = NULL;
    if (f->options->base_uri) {
        const char *below = path + strlen(f->root);
        return join(f->options->base_uri, *below == '/' ? below + 1 : below);
    }
    return asprintf(&location, "file://%s", path) < 0 ? NULL : location;
}

/* ---- the list of tables -------------------------------------------------------------------------------- */

static void refuse(struct finder *f, const char *path, const char *why)
{
    import_tell(f->options, IMPORT_REFUSED, "%s: %s", path, why);
    f->tables->refused++;
}

static void free_table(struct import_table *t)
{
    for (size_t i = 0; i < t->file_count; i++) {
        free(t->files[i].path);
        free(t->files[i].location);
    }
    free(t->files);
    free(t->name);
    free(t->place);
}

void import_tables_free(struct import_tables *tables)
{
    for (size_t i = 0; i < tables->count; i++)
        free_table(&tables->table[i]);
    free(tables->table);
    *tables = (struct import_tables){ 0 };
}

/* Room for one more in ARRAY of COUNT elements of SIZE bytes: it doubles whenever COUNT is a power of two. */
static void *make_room(void *array, size_t count, size_t size)
{
    bool full = (count & (count - 1)) == 0;
    return full ? reallocarray(array, count ? 2 * count : 1, size) : array;
}

/* Add the file at PATH, which it takes over also when it fails. */
static int add_file(struct finder *f, struct import_table *t, char *path)
{
    struct import_file *files = make_room(t->files, t->file_count, sizeof *files);
    char *location = location_of(f, path);
    if (files)
        t->files = files;
    if (!files || !location) {
        free(path);
        free(location);
        return no_memory(f);
    }
    const char *name = last_part(path);
    files[t->file_count++] = (struct import_file){
        .path = path, .location = location, .name = name, .key = iceberg_name_of(name)
    };
    return 0;
}

/*
 * A new table whose files are in DIR, because of PATH.  1 and *RET, 0 when it can't have a name (told), -ENOMEM.
 */
static int add_table(struct finder *f, const char *dir, const char *path, struct import_table **ret)
{
    const char *given = f->options->table;
    if (!given && !is_metadata_dir(dir)) {
        refuse(f, path, "only what is in a table's metadata/ has a name of its own: give --table");
        return 0;
    }
    struct import_table *grown = make_room(f->tables->table, f->tables->count, sizeof *grown);
    if (!grown)
        return no_memory(f);
    f->tables->table = grown;
    struct import_table t = { .name = given ? strdup(given) : name_from_path(dir), .place = strdup(dir) };
    if (!t.name || !t.place) {
        free_table(&t);
        return no_memory(f);
    }
    if (name_fault(t.name)) {
        import_tell(f->options, IMPORT_REFUSED, "%s: %s can't be a table's name, %s: give --table", dir,
                    t.name, name_fault(t.name));
        f->tables->refused++;
        free_table(&t);
        return 0;
    }
    *ret = &grown[f->tables->count++];
    **ret = t;
    return 1;
}

/* ---- directories --------------------------------------------------------------------------------------- */

/* A directory's entries that matter here: metadata files, and what may be a directory to walk into. */
static int matters(const struct dirent *e)
{
    if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
        return 0;
    if (e->d_type == DT_DIR || e->d_type == DT_UNKNOWN || strcmp(e->d_name, METADATA_DIR) == 0)
        return 1;
    return iceberg_name_counts(e->d_name);
}

/* Not by locale: the order of tables and files is the same everywhere. */
static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void free_entries(struct dirent **entries, int count)
{
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
}

static bool any_counts(struct dirent **entries, int count)
{
    for (int i = 0; i < count; i++)
        if (iceberg_name_counts(entries[i]->d_name))
            return true;
    return false;
}

/* How a directory was reached: by name, as an entry, or as an entry that is a link. */
enum reached { ARGUMENT, ENTRY, LINK, NOT_A_DIRECTORY };

/* Links are followed if they are called metadata. */
static enum reached reach(const char *path)
{
    struct stat st;
    if (lstat(path, &st) < 0)
        return NOT_A_DIRECTORY;
    if (S_ISDIR(st.st_mode))
        return ENTRY;
    bool linked = S_ISLNK(st.st_mode) && is_metadata_dir(path) && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    return linked ? LINK : NOT_A_DIRECTORY;
}

static int take_directory(struct finder *f, const char *dir, struct dirent **entries, int count)
{
    struct import_table *t = NULL;
    int r = add_table(f, dir, dir, &t);
    for (int i = 0; r > 0 && i < count; i++) {
        if (!iceberg_name_counts(entries[i]->d_name))
            continue;
        char *path = join(dir, entries[i]->d_name);
        r = path ? add_file(f, t, path) : no_memory(f);
        if (r == 0)
            r = 1;
    }
    return r < 0 ? r : 0;
}

static int walk(struct finder *f, const char *dir, enum reached how);

static int walk_below(struct finder *f, const char *dir, struct dirent **entries, int count)
{
    for (int i = 0; i < count; i++) {
        char *path = join(dir, entries[i]->d_name);
        if (!path)
            return no_memory(f);
        enum reached how = reach(path);
        int r = how == NOT_A_DIRECTORY ? 0 : walk(f, path, how);
        free(path);
        if (r < 0)
            return r;
    }
    return 0;
}

/*
 * DIR was given by name: it may be a table's metadata directory that has another name, and it mustn't be for
 * nothing.
 */
static int walk_argument(struct finder *f, const char *dir, struct dirent **entries, int count)
{
    size_t before = f->tables->count + f->tables->refused;
    int r = walk_below(f, dir, entries, count);
    if (r < 0 || f->tables->count + f->tables->refused > before)
        return r;
    if (any_counts(entries, count))
        return take_directory(f, dir, entries, count);
    refuse(f, dir, "no metadata file is below it");
    return 0;
}

static int walk_entries(struct finder *f, const char *dir, enum reached how, struct dirent **entries,
                        int count)
{
    if (is_metadata_dir(dir) && any_counts(entries, count))
        return take_directory(f, dir, entries, count);
    if (how == ARGUMENT)
        return walk_argument(f, dir, entries, count);
    return how == ENTRY ? walk_below(f, dir, entries, count) : 0; /* below links a walk may go in circles */
}

/*
 * Find the tables below DIR.  The recursion is as deep as a path has parts (PATH_MAX ends it), holds no
 * descriptor, and of each directory on the way the entries that matter.
 */
static int walk(struct finder *f, const char *dir, enum reached how)
{
    struct dirent **entries = NULL;
    int count = scandir(dir, &entries, matters, by_bytes);
    if (count < 0 && errno == ENOMEM)
        return no_memory(f);
    if (count < 0) {
        refuse(f, dir, strerror(errno));
        return 0;
    }
    int r = walk_entries(f, dir, how, entries, count);
    free_entries(entries, count);
    return r;
}

/* ---- files given by name ------------------------------------------------------------------------------- */

/* The table of earlier arguments to which a file in DIR belongs, or NULL. */
static struct import_table *loose_table(struct finder *f, const char *dir)
{
    for (size_t i = 0; i < f->tables->count; i++) {
        struct import_table *t = &f->tables->table[i];
        if (t->loose && (f->options->table || strcmp(t->place, dir) == 0))
            return t;
    }
    return NULL;
}

/* PATH is taken over. */
static int take_file(struct finder *f, const char *dir, char *path)
{
    struct import_table *t = loose_table(f, dir);
    if (!t) {
        int r = add_table(f, dir, path, &t);
        if (r <= 0) {
            free(path);
            return r;
        }
        t->loose = true;
    }
    return add_file(f, t, path);
}

static int find_file(struct finder *f, const char *real)
{
    char dir[PATH_MAX];
    size_t len = (size_t)(last_part(real) - real);
    memcpy(dir, real, len);
    dir[len > 1 ? len - 1 : len] = '\0';
    f->root = dir;
    char *path = strdup(real);
    return path ? take_file(f, dir, path) : no_memory(f);
}

/* -------------------------------------------------------------------------------------------------------- */

static int find_path(struct finder *f, const char *path)
{
    char real[PATH_MAX];
    struct stat st;
    if (!realpath(path, real) || stat(real, &st) < 0) {
        refuse(f, path, strerror(errno));
        return 0;
    }
    if (S_ISDIR(st.st_mode)) {
        f->root = real;
        return walk(f, real, ARGUMENT);
    }
    if (S_ISREG(st.st_mode))
        return find_file(f, real);
    refuse(f, path, "is neither a regular file nor a directory");
    return 0;
}

static int check_table_option(struct finder *f)
{
    const char *name = f->options->table;
    const char *fault = name ? name_fault(name) : NULL;
    if (fault)
        return iceberg_fail(f->err, SKADE_EINPUT, "--table %s can't be a table's name, %s", name, fault);
    return 0;
}

static int check_one_table(struct finder *f)
{
    const struct import_tables *found = f->tables;
    if (f->options->table && found->count > 1)
        return iceberg_fail(f->err, SKADE_EINPUT, "--table names one table, but %s and %s are two of %zu",
                            found->table[0].place, found->table[1].place, found->count);
    return 0;
}

int import_find(const char *const *paths, size_t count, const struct import_options *options,
                struct import_tables *ret, struct iceberg_error *err)
{
    struct finder f = { .options = options, .tables = ret, .err = err };
    *ret = (struct import_tables){ 0 };
    int r = check_table_option(&f);
    for (size_t i = 0; r == 0 && i < count; i++)
        r = find_path(&f, paths[i]);
    return r == 0 ? check_one_table(&f) : r;
}
