# Gives CMake the targets tracer::tracer (shared) and tracer::static.
include(CMakeFindDependencyMacro)
find_dependency(Threads)

if(NOT TARGET tracer::tracer)
    add_library(tracer::tracer SHARED IMPORTED)
    set_target_properties(tracer::tracer PROPERTIES
        IMPORTED_LOCATION "@LIBDIR@/libtracer.so.@MAJOR@"
        IMPORTED_SONAME "libtracer.so.@MAJOR@"
        INTERFACE_INCLUDE_DIRECTORIES "@INCLUDEDIR@")
    add_library(tracer::static STATIC IMPORTED)
    set_target_properties(tracer::static PROPERTIES
        IMPORTED_LOCATION "@LIBDIR@/libtracer.a"
        INTERFACE_INCLUDE_DIRECTORIES "@INCLUDEDIR@"
        INTERFACE_LINK_LIBRARIES "Threads::Threads;dl;m")
endif()
